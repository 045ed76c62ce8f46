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
  static constexpr std::size_t kRun = 4;

  static Pack load(const std::byte* from) {
    const Pack pack = Format::widen(from);
    return {Op::enter(pack.first), Op::enter(pack.second)};
  }
  static Pack fold(const Pack& a, const Pack& b) {
    return {Op::apply(DFloat(), a.first, b.first), Op::apply(DFloat(), a.second, b.second)};
  }
  static Pack divide(const Pack& value, const Pack& divisor) {
    return {hn::Div(value.first, divisor.first), hn::Div(value.second, divisor.second)};
  }
  static Pack leave(const Pack& pack) { return {Op::leave(pack.first), Op::leave(pack.second)}; }
  template <class... Packs>
  static bool suspect(const Packs&... packs) {
    return may_have_nan(DFloat(), hn::Add(packs.first, packs.second)...);
  }
  template <class Store>
  static void store(const Pack& pack, std::byte* to) {
    Format::template narrow<Store>(pack, to);
  }
  static void store_suspect(const Pack& pack, std::byte* to) {
    store<Cached>({canonical_nan(DFloat(), pack.first), canonical_nan(DFloat(), pack.second)}, to);
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
void divide_format(const Transform& transform, float divisor) {
  const auto lanes = hn::Set(DFloat(), divisor);
  transform_all<HalfLanes<Format, ReduceOp::kSum>, Divide>(transform, {lanes, lanes});
}

template <class Format>
void scale_format(const Transform& transform, float scalar) {
  const auto lanes = hn::Set(DFloat(), scalar);
  transform_all<HalfLanes<Format, ReduceOp::kProd>, Multiply>(transform, {lanes, lanes});
}

void fold_half_floats(const Fold& fold) {
  fold.dtype == Datatype::kFloat16 ? fold_format<Float16>(fold) : fold_format<Bfloat16>(fold);
}

void divide_half_floats(const Transform& transform, std::uint64_t divisor) {
  const auto wide = static_cast<float>(divisor);
  transform.dtype == Datatype::kFloat16 ? divide_format<Float16>(transform, wide)
                                        : divide_format<Bfloat16>(transform, wide);
}

void scale_half_floats(const Transform& transform, const std::byte* scalar) {
  std::uint16_t bits;
  std::memcpy(&bits, scalar, sizeof(bits));
  if (transform.dtype == Datatype::kFloat16) return scale_format<Float16>(transform, float_from_half(bits));
  scale_format<Bfloat16>(transform, float_from_bfloat16(bits));
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_half_floats);
HWY_EXPORT(divide_half_floats);
HWY_EXPORT(scale_half_floats);

void fold_half_floats(const Fold& fold) { HWY_DYNAMIC_DISPATCH(fold_half_floats)(fold); }
void divide_half_floats(const Transform& transform, std::uint64_t divisor) {
  HWY_DYNAMIC_DISPATCH(divide_half_floats)(transform, divisor);
}
void scale_half_floats(const Transform& transform, const std::byte* scalar) {
  HWY_DYNAMIC_DISPATCH(scale_half_floats)(transform, scalar);
}

}  // namespace foldcast::kernels
#endif
