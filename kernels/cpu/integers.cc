#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/integers.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// Without vectors: one element a pack, so that nothing is asked of Highway that a single lane cannot do.
template <class T, ReduceOp kOp>
struct IntegerLanes : WithoutNan {
  using Pack = T;
  static constexpr std::size_t kBytes = sizeof(T);

  static Pack all(T value) { return value; }
  static Pack load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static Pack fold(Pack a, Pack b) {
    if constexpr (kOp == ReduceOp::kMin) return b < a ? b : a;
    if constexpr (kOp == ReduceOp::kMax) return a < b ? b : a;
    // Widened first: two uint16_t would be promoted to int, whose product overflows.
    if constexpr (kOp == ReduceOp::kProd) return static_cast<T>(std::uint64_t{a} * std::uint64_t{b});
    if constexpr (kOp == ReduceOp::kSum) return static_cast<T>(std::uint64_t{a} + std::uint64_t{b});
  }
  static Pack leave(Pack pack) { return pack; }
  template <class Store>
  static void store(Pack pack, std::byte* to) {
    std::memcpy(to, &pack, sizeof(pack));
  }
  static void store_suspect(Pack pack, std::byte* to) { store<Cached>(pack, to); }
};

#else

/// The low half of each product, which is all that wraps, for the widths that have no instruction of their own.
template <class D, class V = hn::Vec<D>>
V wrapping_product(D d, V a, V b) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::Repartition<std::uint16_t, D> d16;
    const auto a16 = hn::BitCast(d16, a);
    const auto b16 = hn::BitCast(d16, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, 0x00FF));
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(even, odd));
  } else if constexpr (sizeof(hn::TFromD<D>) == 8 && (!HWY_ARCH_X86 || HWY_TARGET > HWY_AVX3)) {
    // (a1 2^32 + a0)(b1 2^32 + b0) = a0 b0 + (a1 b0 + a0 b1) 2^32, modulo 2^64.
    const hn::Repartition<std::uint32_t, D> d32;
    const auto a32 = hn::BitCast(d32, a);
    const auto b32 = hn::BitCast(d32, b);
    const auto crossed = hn::BitCast(d, hn::Mul(a32, hn::Shuffle2301(b32)));
    const auto high = hn::ShiftLeft<32>(hn::Add(crossed, hn::ShiftRight<32>(crossed)));
    return hn::Add(hn::MulEven(a32, b32), high);
  } else {
    return hn::Mul(a, b);
  }
}

template <class T, ReduceOp kOp>
struct IntegerLanes : WithoutNan {
  using D = hn::ScalableTag<T>;
  using Pack = hn::Vec<D>;
  static constexpr std::size_t kBytes = sizeof(T) * hn::MaxLanes(D());

  static Pack all(T value) { return hn::Set(D(), value); }
  static Pack load(const std::byte* from) { return get(D(), from); }
  static Pack fold(Pack a, Pack b) {
    if constexpr (kOp == ReduceOp::kMin) return hn::Min(a, b);
    if constexpr (kOp == ReduceOp::kMax) return hn::Max(a, b);
    if constexpr (kOp == ReduceOp::kProd) return wrapping_product(D(), a, b);
    if constexpr (kOp == ReduceOp::kSum) return hn::Add(a, b);
  }
  static Pack leave(Pack pack) { return pack; }
  template <class Store>
  static void store(Pack pack, std::byte* to) {
    Store::put(pack, D(), to);
  }
  static void store_suspect(Pack pack, std::byte* to) { store<Cached>(pack, to); }
};

#endif

template <class Unsigned>
void fold_wrapping(const Fold& fold) {
  if (fold.op == ReduceOp::kProd) {
    fold_all<IntegerLanes<Unsigned, ReduceOp::kProd>>(fold);
  } else {
    fold_all<IntegerLanes<Unsigned, ReduceOp::kSum>>(fold);
  }
}

template <class T>
void fold_ordered(const Fold& fold) {
  if (fold.op == ReduceOp::kMin) {
    fold_all<IntegerLanes<T, ReduceOp::kMin>>(fold);
  } else {
    fold_all<IntegerLanes<T, ReduceOp::kMax>>(fold);
  }
}

void fold_integers(const Fold& fold) {
  // Sums and products wrap, so they have the same bits for both signednesses: only the order of min and max differs.
  if (fold.op == ReduceOp::kSum || fold.op == ReduceOp::kProd) {
    switch (size_of(fold.dtype)) {
      case 1:
        return fold_wrapping<std::uint8_t>(fold);
      case 2:
        return fold_wrapping<std::uint16_t>(fold);
      case 4:
        return fold_wrapping<std::uint32_t>(fold);
      default:
        return fold_wrapping<std::uint64_t>(fold);
    }
  }
  switch (fold.dtype) {
    case Datatype::kInt8:
      return fold_ordered<std::int8_t>(fold);
    case Datatype::kUint8:
      return fold_ordered<std::uint8_t>(fold);
    case Datatype::kInt16:
      return fold_ordered<std::int16_t>(fold);
    case Datatype::kUint16:
      return fold_ordered<std::uint16_t>(fold);
    case Datatype::kInt32:
      return fold_ordered<std::int32_t>(fold);
    case Datatype::kUint32:
      return fold_ordered<std::uint32_t>(fold);
    case Datatype::kInt64:
      return fold_ordered<std::int64_t>(fold);
    default:
      return fold_ordered<std::uint64_t>(fold);
  }
}

template <class Unsigned>
void scale_type(const Transform& transform, const std::byte* scalar) {
  using Lanes = IntegerLanes<Unsigned, ReduceOp::kProd>;
  Unsigned factor;
  std::memcpy(&factor, scalar, sizeof(factor));
  transform_all<Lanes, Multiply>(transform, Lanes::all(factor));
}

void scale_integers(const Transform& transform, const std::byte* scalar) {
  switch (size_of(transform.dtype)) {
    case 1:
      return scale_type<std::uint8_t>(transform, scalar);
    case 2:
      return scale_type<std::uint16_t>(transform, scalar);
    case 4:
      return scale_type<std::uint32_t>(transform, scalar);
    default:
      return scale_type<std::uint64_t>(transform, scalar);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_integers);
HWY_EXPORT(scale_integers);

void fold_integers(const Fold& fold) { HWY_DYNAMIC_DISPATCH(fold_integers)(fold); }
void scale_integers(const Transform& transform, const std::byte* scalar) {
  HWY_DYNAMIC_DISPATCH(scale_integers)(transform, scalar);
}

}  // namespace foldcast::kernels
#endif
