#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/floats.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/float_ops-inl.h"
#include "kernels/cpu/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

template <class T, ReduceOp kOp>
struct FloatLanes {
  using D = hn::ScalableTag<T>;
  using Pack = hn::Vec<D>;
  using Op = FloatOp<kOp>;
  static constexpr std::size_t kBytes = sizeof(T) * hn::MaxLanes(D());
  static constexpr std::size_t kRun = 4;

  static Pack load(const std::byte* from) { return Op::enter(get(D(), from)); }
  static Pack fold(Pack a, Pack b) { return Op::apply(D(), a, b); }
  static Pack divide(Pack value, Pack divisor) { return hn::Div(value, divisor); }
  static Pack leave(Pack pack) { return Op::leave(pack); }
  template <class... Packs>
  static bool suspect(Packs... packs) {
    return may_have_nan(D(), packs...);
  }
  template <class Store>
  static void store(Pack pack, std::byte* to) {
    Store::put(pack, D(), to);
  }
  static void store_suspect(Pack pack, std::byte* to) { Cached::put(canonical_nan(D(), pack), D(), to); }
};

template <class T>
void fold_type(const Fold& fold) {
  switch (fold.op) {
    case ReduceOp::kProd:
      return fold_all<FloatLanes<T, ReduceOp::kProd>>(fold);
    case ReduceOp::kMin:
      return fold_all<FloatLanes<T, ReduceOp::kMin>>(fold);
    case ReduceOp::kMax:
      return fold_all<FloatLanes<T, ReduceOp::kMax>>(fold);
    default:
      return fold_all<FloatLanes<T, ReduceOp::kSum>>(fold);
  }
}

template <class T>
void divide_type(const Transform& transform, T divisor) {
  using Lanes = FloatLanes<T, ReduceOp::kSum>;
  transform_all<Lanes, Divide>(transform, hn::Set(typename Lanes::D(), divisor));
}

template <class T>
void scale_type(const Transform& transform, const std::byte* scalar) {
  using Lanes = FloatLanes<T, ReduceOp::kProd>;
  T factor;
  std::memcpy(&factor, scalar, sizeof(factor));
  transform_all<Lanes, Multiply>(transform, hn::Set(typename Lanes::D(), factor));
}

void fold_floats(const Fold& fold) {
  fold.dtype == Datatype::kFloat64 ? fold_type<double>(fold) : fold_type<float>(fold);
}

void divide_floats(const Transform& transform, std::uint64_t divisor) {
  if (transform.dtype == Datatype::kFloat64) return divide_type(transform, static_cast<double>(divisor));
  divide_type(transform, static_cast<float>(divisor));
}

void scale_floats(const Transform& transform, const std::byte* scalar) {
  transform.dtype == Datatype::kFloat64 ? scale_type<double>(transform, scalar) : scale_type<float>(transform, scalar);
}

const char* chosen_target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_floats);
HWY_EXPORT(divide_floats);
HWY_EXPORT(scale_floats);
HWY_EXPORT(chosen_target);

void fold_floats(const Fold& fold) { HWY_DYNAMIC_DISPATCH(fold_floats)(fold); }
void divide_floats(const Transform& transform, std::uint64_t divisor) {
  HWY_DYNAMIC_DISPATCH(divide_floats)(transform, divisor);
}
void scale_floats(const Transform& transform, const std::byte* scalar) {
  HWY_DYNAMIC_DISPATCH(scale_floats)(transform, scalar);
}
std::string_view chosen_target() { return HWY_DYNAMIC_DISPATCH(chosen_target)(); }

}  // namespace foldcast::kernels
#endif
