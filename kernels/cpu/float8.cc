#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float8.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/float8-inl.h"
#include "kernels/cpu/float_ops-inl.h"
#include "kernels/cpu/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

/// One element a pack.
template <class Format, ReduceOp kOp>
struct Float8Lanes {
  using D = hn::ScalableTag<float>;
  using Pack = hn::Vec<D>;
  using Op = FloatOp<kOp>;
  static constexpr std::size_t kBytes = 1;
  static constexpr std::size_t kRun = 1;
  static constexpr bool kIsE4m3 = Format::kMantissa == 3;

  static Pack all(float value) { return hn::Set(D(), value); }
  static Pack load(const std::byte* from) {
    const auto bits = static_cast<std::uint8_t>(*from);
    return Op::enter(all(kIsE4m3 ? float_from_e4m3(bits) : float_from_e5m2(bits)));
  }
  static Pack fold(Pack a, Pack b) { return Op::apply(D(), a, b); }
  static Pack divide(Pack value, Pack divisor) { return hn::Div(value, divisor); }
  static Pack leave(Pack pack) { return Op::leave(pack); }
  static bool suspect(Pack) { return false; }
  template <class Store>
  static void store(Pack pack, std::byte* to) {
    const float value = hn::GetLane(pack);
    *to = static_cast<std::byte>(kIsE4m3 ? e4m3_from_float(value) : e5m2_from_float(value));
  }
  static void store_suspect(Pack pack, std::byte* to) { store<Cached>(pack, to); }
};

#else

/// A pack is four float vectors.
template <class Format, ReduceOp kOp>
struct Float8Lanes {
  using D = hn::ScalableTag<float>;
  using Codec = Float8<Format, D>;
  using Pack = FloatQuad<D>;
  using Op = FloatOp<kOp>;
  static constexpr std::size_t kBytes = Codec::kBytes;
  static constexpr std::size_t kRun = 1;

  static Pack all(float value) {
    const auto lanes = hn::Set(D(), value);
    return {lanes, lanes, lanes, lanes};
  }
  static Pack load(const std::byte* from) {
    const Pack pack = Codec::widen(get(typename Codec::DByte(), from));
    return {Op::enter(pack.a), Op::enter(pack.b), Op::enter(pack.c), Op::enter(pack.d)};
  }
  static Pack fold(const Pack& a, const Pack& b) {
    return {Op::apply(D(), a.a, b.a), Op::apply(D(), a.b, b.b), Op::apply(D(), a.c, b.c), Op::apply(D(), a.d, b.d)};
  }
  static Pack divide(const Pack& value, const Pack& divisor) {
    return {hn::Div(value.a, divisor.a), hn::Div(value.b, divisor.b), hn::Div(value.c, divisor.c),
            hn::Div(value.d, divisor.d)};
  }
  static Pack leave(const Pack& pack) {
    return {Op::leave(pack.a), Op::leave(pack.b), Op::leave(pack.c), Op::leave(pack.d)};
  }
  /// E4M3 narrows NaN to NaN by itself.
  static bool suspect(const Pack& pack) {
    return Format::kLargest != Format::kQuietNan && may_have_nan(D(), pack.a, pack.b, pack.c, pack.d);
  }
  template <class Store>
  static void store(const Pack& pack, std::byte* to) {
    Store::put(Codec::narrow(pack), typename Codec::DByte(), to);
  }
  static void store_suspect(const Pack& pack, std::byte* to) {
    Cached::put(Codec::with_nan(Codec::narrow(pack), pack), typename Codec::DByte(), to);
  }
};

#endif

template <class Format>
void fold_format(const Fold& fold) {
  switch (fold.op) {
    case ReduceOp::kProd:
      return fold_all<Float8Lanes<Format, ReduceOp::kProd>>(fold);
    case ReduceOp::kMin:
      return fold_all<Float8Lanes<Format, ReduceOp::kMin>>(fold);
    case ReduceOp::kMax:
      return fold_all<Float8Lanes<Format, ReduceOp::kMax>>(fold);
    default:
      return fold_all<Float8Lanes<Format, ReduceOp::kSum>>(fold);
  }
}

template <class Format>
void divide_format(const Transform& transform, float divisor) {
  using Lanes = Float8Lanes<Format, ReduceOp::kSum>;
  transform_all<Lanes, Divide>(transform, Lanes::all(divisor));
}

template <class Format>
void scale_format(const Transform& transform, float scalar) {
  using Lanes = Float8Lanes<Format, ReduceOp::kProd>;
  transform_all<Lanes, Multiply>(transform, Lanes::all(scalar));
}

void fold_float8(const Fold& fold) {
  fold.dtype == Datatype::kFloat8E4m3 ? fold_format<E4m3>(fold) : fold_format<E5m2>(fold);
}

void divide_float8(const Transform& transform, std::uint64_t divisor) {
  const auto wide = static_cast<float>(divisor);
  transform.dtype == Datatype::kFloat8E4m3 ? divide_format<E4m3>(transform, wide)
                                           : divide_format<E5m2>(transform, wide);
}

void scale_float8(const Transform& transform, const std::byte* scalar) {
  const auto bits = static_cast<std::uint8_t>(*scalar);
  if (transform.dtype == Datatype::kFloat8E4m3) return scale_format<E4m3>(transform, float_from_e4m3(bits));
  scale_format<E5m2>(transform, float_from_e5m2(bits));
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_float8);
HWY_EXPORT(divide_float8);
HWY_EXPORT(scale_float8);

void fold_float8(const Fold& fold) { HWY_DYNAMIC_DISPATCH(fold_float8)(fold); }
void divide_float8(const Transform& transform, std::uint64_t divisor) {
  HWY_DYNAMIC_DISPATCH(divide_float8)(transform, divisor);
}
void scale_float8(const Transform& transform, const std::byte* scalar) {
  HWY_DYNAMIC_DISPATCH(scale_float8)(transform, scalar);
}

}  // namespace foldcast::kernels
#endif
