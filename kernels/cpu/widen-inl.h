// A vector of 16-bit floats as two vectors of float and back. Included once per instruction set.
//
// Where an instruction converts contiguous elements it is used; else the elements at even and odd places of a vector
// are widened where they stand, which needs no movement across lanes. Narrowing undoes either order, rounds to nearest
// even and overflows to infinity; of NaNs it takes the one quiet NaN without payload only (canonical_nan). Conversions
// between arrays use widen_in_order and narrow_in_order.

#if defined(FOLDCAST_KERNELS_CPU_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLDCAST_KERNELS_CPU_WIDEN_INL_H_
#undef FOLDCAST_KERNELS_CPU_WIDEN_INL_H_
#else
#define FOLDCAST_KERNELS_CPU_WIDEN_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/float_ops-inl.h"
#include "kernels/cpu/memory-inl.h"
#include "kernels/formats.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

using DFloat = hn::ScalableTag<float>;
struct FloatPair {
  hn::Vec<DFloat> first;
  hn::Vec<DFloat> second;
};

#if HWY_TARGET == HWY_SCALAR

// Without vectors: one element a pack, the second of the pair idle.
template <float (*kWiden)(std::uint16_t), std::uint16_t (*kNarrow)(float)>
struct ScalarFormat {
  static constexpr std::size_t kBytes = 2;

  static FloatPair widen(const std::byte* from) {
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return {hn::Set(DFloat(), kWiden(bits)), hn::Zero(DFloat())};
  }
  template <class Store>
  static void narrow(const FloatPair& pair, std::byte* to) {
    const std::uint16_t bits = kNarrow(hn::GetLane(pair.first));
    std::memcpy(to, &bits, sizeof(bits));
  }
};
using Float16 = ScalarFormat<float_from_half, half_from_float>;
using Bfloat16 = ScalarFormat<float_from_bfloat16, bfloat16_from_float>;

#else

using DBits = hn::RebindToUnsigned<DFloat>;
using DShort = hn::Repartition<std::uint16_t, DFloat>;
using VBits = hn::Vec<DBits>;

inline VBits load_shorts(const std::byte* from) { return hn::BitCast(DBits(), get(DShort(), from)); }

/// A float vector's worth of elements, each in the lower half of its lane.
inline VBits load_half_of_shorts(const std::byte* from) {
  return hn::PromoteTo(DBits(), get(hn::Rebind<std::uint16_t, DFloat>(), from));
}

struct Bfloat16 {
  static constexpr std::size_t kBytes = 2 * hn::MaxLanes(DShort());

  static FloatPair widen(const std::byte* from) {
    const VBits bits = load_shorts(from);
    return {hn::BitCast(DFloat(), hn::ShiftLeft<16>(bits)),
            hn::BitCast(DFloat(), hn::And(bits, hn::Set(DBits(), 0xFFFF'0000)))};
  }
  template <class Store>
  static void narrow(const FloatPair& pair, std::byte* to) {
    const auto even = hn::BitCast(DShort(), hn::ShiftRight<16>(rounded(pair.first)));
    Store::put(hn::OddEven(hn::BitCast(DShort(), rounded(pair.second)), even), DShort(), to);
  }

  static FloatPair widen_in_order(const std::byte* from) {
    const auto widen_one = [](const std::byte* at)
                               HWY_ATTR { return hn::BitCast(DFloat(), hn::ShiftLeft<16>(load_half_of_shorts(at))); };
    return {widen_one(from), widen_one(from + kBytes / 2)};
  }
  static void narrow_in_order(const FloatPair& pair, std::byte* to) {
    const auto low = hn::BitCast(DShort(), rounded(pair.first));
    const auto high = hn::BitCast(DShort(), rounded(pair.second));
    Cached::put(hn::ConcatOdd(DShort(), high, low), DShort(), to);
  }

 private:
  /// The bfloat16 in the upper half, anything in the lower.
  static VBits rounded(hn::Vec<DFloat> value) {
    const VBits bits = hn::BitCast(DBits(), value);
    const VBits is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(DBits(), 1));
    return hn::Add(hn::Add(bits, hn::Set(DBits(), 0x7FFF)), is_odd);
  }
};

#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64  // lower numbers are the newer sets

struct Float16 {
  using DHalf = hn::Rebind<hwy::float16_t, DFloat>;
  static constexpr std::size_t kVector = 2 * hn::MaxLanes(DFloat());
  static constexpr std::size_t kBytes = 2 * kVector;

  static FloatPair widen(const std::byte* from) { return {widen_one(from), widen_one(from + kVector)}; }
  template <class Store>
  static void narrow(const FloatPair& pair, std::byte* to) {
    Store::put(hn::DemoteTo(DHalf(), pair.first), DHalf(), to);
    Store::put(hn::DemoteTo(DHalf(), pair.second), DHalf(), to + kVector);
  }
  static FloatPair widen_in_order(const std::byte* from) { return widen(from); }
  static void narrow_in_order(const FloatPair& pair, std::byte* to) { narrow<Cached>(pair, to); }

 private:
  static hn::Vec<DFloat> widen_one(const std::byte* from) { return hn::PromoteTo(DFloat(), get(DHalf(), from)); }
};

#else

// Highway's own conversion without F16C truncates and knows no NaN, so this is formats.cc in vectors.
struct Float16 {
  static constexpr std::size_t kBytes = 2 * hn::MaxLanes(DShort());

  static FloatPair widen(const std::byte* from) {
    const VBits bits = load_shorts(from);
    return {widened(hn::And(bits, hn::Set(DBits(), 0xFFFF))), widened(hn::ShiftRight<16>(bits))};
  }
  template <class Store>
  static void narrow(const FloatPair& pair, std::byte* to) {
    const VBits both = hn::Or(narrowed(pair.first), hn::ShiftLeft<16>(narrowed(pair.second)));
    Store::put(hn::BitCast(DShort(), both), DShort(), to);
  }

  static FloatPair widen_in_order(const std::byte* from) {
    return {widened(load_half_of_shorts(from)), widened(load_half_of_shorts(from + kBytes / 2))};
  }
  static void narrow_in_order(const FloatPair& pair, std::byte* to) {
    const auto low = hn::BitCast(DShort(), narrowed(pair.first));
    const auto high = hn::BitCast(DShort(), narrowed(pair.second));
    Cached::put(hn::ConcatEven(DShort(), high, low), DShort(), to);
  }

 private:
  static hn::Vec<DFloat> widened(VBits half) {
    const VBits sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(DBits(), 0x8000)));
    const VBits magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(DBits(), 0x7FFF)));
    const auto scaled = hn::Mul(hn::BitCast(DFloat(), magnitude), hn::Set(DFloat(), 0x1p112F));
    // Infinities and NaNs have an exponent of all ones in either format. As signed numbers, which magnitudes fit.
    const hn::RebindToSigned<DFloat> d_int;
    const auto is_special = hn::Gt(hn::BitCast(d_int, magnitude), hn::Set(d_int, 0x0F7F'FFFF));
    const VBits exponent = hn::IfThenElseZero(hn::RebindMask(DBits(), is_special), hn::Set(DBits(), 0x7F80'0000));
    return hn::BitCast(DFloat(), hn::Or(hn::Or(hn::BitCast(DBits(), scaled), exponent), sign));
  }

  /// The half in the lower 16 bits, zero above.
  static VBits narrowed(hn::Vec<DFloat> value) {
    const VBits bits = hn::BitCast(DBits(), value);
    const VBits magnitude = hn::And(bits, hn::Set(DBits(), 0x7FFF'FFFF));
    const VBits sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(DBits(), 0x8000));
    const auto absolute = hn::BitCast(DFloat(), magnitude);

    const VBits is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(DBits(), 1));
    const VBits rebiased = hn::Sub(magnitude, hn::Set(DBits(), (112U << 23) - 0xFFF));
    const VBits normal = hn::ShiftRight<13>(hn::Add(rebiased, is_odd));
    const VBits half_bits = hn::BitCast(DBits(), hn::Set(DFloat(), 0.5F));
    const VBits subnormal = hn::Sub(hn::BitCast(DBits(), hn::Add(absolute, hn::Set(DFloat(), 0.5F))), half_bits);

    const auto is_subnormal = hn::RebindMask(DBits(), hn::Lt(absolute, hn::Set(DFloat(), 0x1p-14F)));
    const auto overflows = hn::RebindMask(DBits(), hn::Ge(absolute, hn::Set(DFloat(), 65520.0F)));
    const auto is_nan = hn::RebindMask(DBits(), hn::IsNaN(value));
    VBits half = hn::IfThenElse(is_subnormal, subnormal, normal);
    half = hn::IfThenElse(overflows, hn::Set(DBits(), 0x7C00), half);
    return hn::IfThenElse(is_nan, hn::Set(DBits(), 0x7E00), hn::Or(half, sign));
  }
};

#endif
#endif

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#endif
