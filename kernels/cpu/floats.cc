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
namespace hn = hwy::HWY_NAMESPACE;

template <class T, ReduceOp kOp>
struct FloatLanes {
  using D = hn::ScalableTag<T>;
  using Pack = hn::Vec<D>;
  using Op = FloatOp<kOp>;
  static constexpr std::size_t kBytes = sizeof(T) * hn::MaxLanes(D());

#if HWY_TARGET == HWY_SCALAR
  // A single lane is loaded by dereferencing, which wants alignment.
  static Pack load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return Op::enter(hn::Set(D(), value));
  }
  static void store(Pack pack, std::byte* to) {
    const T value = hn::GetLane(canonical_nan(D(), Op::leave(pack)));
    std::memcpy(to, &value, sizeof(value));
  }
#else
  static Pack load(const std::byte* from) { return Op::enter(hn::LoadU(D(), reinterpret_cast<const T*>(from))); }
  static void store(Pack pack, std::byte* to) {
    hn::StoreU(canonical_nan(D(), Op::leave(pack)), D(), reinterpret_cast<T*>(to));
  }
#endif
  static Pack fold(Pack a, Pack b) { return Op::apply(D(), a, b); }
  static Pack divide(Pack value, Pack divisor) { return hn::Div(value, divisor); }
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
void divide_type(const Division& division) {
  using Lanes = FloatLanes<T, ReduceOp::kSum>;
  divide_all<Lanes>(division, hn::Set(typename Lanes::D(), static_cast<T>(division.divisor)));
}

void fold_floats(const Fold& fold) {
  fold.dtype == Datatype::kFloat64 ? fold_type<double>(fold) : fold_type<float>(fold);
}

void divide_floats(const Division& division) {
  division.dtype == Datatype::kFloat64 ? divide_type<double>(division) : divide_type<float>(division);
}

const char* chosen_target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_floats);
HWY_EXPORT(divide_floats);
HWY_EXPORT(chosen_target);

void fold_floats(const Fold& fold) { HWY_DYNAMIC_DISPATCH(fold_floats)(fold); }
void divide_floats(const Division& division) { HWY_DYNAMIC_DISPATCH(divide_floats)(division); }
std::string_view chosen_target() { return HWY_DYNAMIC_DISPATCH(chosen_target)(); }

}  // namespace foldcast::kernels
#endif
