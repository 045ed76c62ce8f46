#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/half_floats.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/float_ops-inl.h"
#include "kernels/cpu/fold-inl.h"
#include "kernels/cpu/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

/// `Format` widens and narrows (widen-inl.h): a pack is two float vectors.
template <class Format, ReduceOp kOp>
struct HalfLanes {
  using Pack = FloatPair;
  using Op = FloatOp<kOp>;
  static constexpr std::size_t kBytes = Format::kBytes;

  static Pack load(const std::byte* from) {
    const Pack pack = Format::widen(from);
    return {Op::enter(pack.first), Op::enter(pack.second)};
  }
  static void store(const Pack& pack, std::byte* to) {
    Format::narrow({Op::leave(pack.first), Op::leave(pack.second)}, to);
  }
  static Pack fold(const Pack& a, const Pack& b) {
    return {Op::apply(DFloat(), a.first, b.first), Op::apply(DFloat(), a.second, b.second)};
  }
  static Pack divide(const Pack& value, const Pack& divisor) {
    return {hn::Div(value.first, divisor.first), hn::Div(value.second, divisor.second)};
  }
};

template <class Format>
void fold_format(const Fold& fold) {
  switch (fold.op) {
    case ReduceOp::kProd:
      return fold_all<HalfLanes<Format, ReduceOp::kProd>>(fold);
    case ReduceOp::kMin:
      return fold_all<HalfLanes<Format, ReduceOp::kMin>>(fold);
    case ReduceOp::kMax:
      return fold_all<HalfLanes<Format, ReduceOp::kMax>>(fold);
    default:
      return fold_all<HalfLanes<Format, ReduceOp::kSum>>(fold);
  }
}

template <class Format>
void divide_format(const Division& division) {
  const auto divisor = hn::Set(DFloat(), static_cast<float>(division.divisor));
  divide_all<HalfLanes<Format, ReduceOp::kSum>>(division, {divisor, divisor});
}

void fold_half_floats(const Fold& fold) {
  fold.dtype == Datatype::kFloat16 ? fold_format<Float16>(fold) : fold_format<Bfloat16>(fold);
}

void divide_half_floats(const Division& division) {
  division.dtype == Datatype::kFloat16 ? divide_format<Float16>(division) : divide_format<Bfloat16>(division);
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_half_floats);
HWY_EXPORT(divide_half_floats);

void fold_half_floats(const Fold& fold) { HWY_DYNAMIC_DISPATCH(fold_half_floats)(fold); }
void divide_half_floats(const Division& division) { HWY_DYNAMIC_DISPATCH(divide_half_floats)(division); }

}  // namespace foldcast::kernels
#endif
