// A vector of 8-bit floats as four vectors of float and back. Included once per instruction set.
//
// The float vectors are in *stacked* order: each 128-bit block of bytes is widened where it stands, its four groups of
// four going to the four vectors, so that nothing crosses blocks. Arrays of floats need `in_order` and `stacked`.
//
// All values fit bfloat16, so widening is arithmetic on the two bytes of one. Narrowing adds to the magnitude the power
// of two whose unit in the last place is the result's, so that the addition rounds to it, to even: the difference of
// the bits then counts those units, for normal and subnormal results alike.

#if defined(FOLDCAST_KERNELS_CPU_FLOAT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLDCAST_KERNELS_CPU_FLOAT8_INL_H_
#undef FOLDCAST_KERNELS_CPU_FLOAT8_INL_H_
#else
#define FOLDCAST_KERNELS_CPU_FLOAT8_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/float_ops-inl.h"
#include "kernels/cpu/memory-inl.h"
#include "kernels/formats.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

/// The fields of a format with `kMantissaBits`. Magnitudes from `kSpecial` on are infinity or NaN; narrowing ends at
/// `kLast`, which is what an overflow becomes.
template <int kMantissaBits, int kRebias, int kSpecial, int kLast, int kNan>
struct Float8Format {
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kExponentGap = kRebias;  ///< what exponents lack to be float32's
  static constexpr int kFirstSpecial = kSpecial;
  static constexpr int kLargest = kLast;
  static constexpr int kQuietNan = kNan;

  /// The two bytes of `i` subnormal units as bfloat16.
  static constexpr std::uint8_t low_byte(int i) { return static_cast<std::uint8_t>(bfloat16_of(i)); }
  static constexpr std::uint8_t high_byte(int i) { return static_cast<std::uint8_t>(bfloat16_of(i) >> 8); }

 private:
  static constexpr std::uint32_t bfloat16_of(int i) {
    if (i >= 1 << kMantissa) return 0;
    const auto unit = std::bit_cast<float>(static_cast<std::uint32_t>(kExponentGap + 1 - kMantissa) << 23);
    return std::bit_cast<std::uint32_t>(static_cast<float>(i) * unit) >> 16;
  }
};
using E4m3 = Float8Format<3, 120, 0x7F, 0x7F, 0x7F>;
using E5m2 = Float8Format<2, 112, 0x7C, 0x7C, 0x7E>;
/// The codes of the wire's blocks: E4M3 with infinity and NaN as in IEEE, saturating.
using BlockE4m3 = Float8Format<3, 120, 0x78, 0x77, 0x7C>;

#if HWY_TARGET != HWY_SCALAR

template <class D>
struct FloatQuad {
  hn::Vec<D> a, b, c, d;
};

template <class Format, class D>
struct Float8 {
  using DBits = hn::RebindToUnsigned<D>;
  using DInt = hn::RebindToSigned<D>;
  using DShort = hn::Repartition<std::uint16_t, D>;
  using DSignedShort = hn::Repartition<std::int16_t, D>;
  using DByte = hn::Repartition<std::uint8_t, D>;
  using DSignedByte = hn::Repartition<std::int8_t, D>;
  using VBits = hn::Vec<DBits>;
  using VShort = hn::Vec<DSignedShort>;
  using VByte = hn::Vec<DByte>;
  using Quad = FloatQuad<D>;
  static constexpr std::size_t kBytes = hn::MaxLanes(DByte());

  static HWY_INLINE Quad widen(VByte bytes) {
    const VByte magnitude = hn::And(bytes, hn::Set(DByte(), 0x7F));
    VByte low = hn::ShiftLeft<7 - Format::kMantissa>(magnitude);
    VByte high = hn::Add(hn::ShiftRight<1 + Format::kMantissa>(magnitude), hn::Set(DByte(), Format::kExponentGap / 2));
    const auto is_subnormal = less(magnitude, 1 << Format::kMantissa);
    low = hn::IfThenElse(is_subnormal, hn::TableLookupBytes(table<&Format::low_byte>(), magnitude), low);
    high = hn::IfThenElse(is_subnormal, hn::TableLookupBytes(table<&Format::high_byte>(), magnitude), high);
    const auto is_usual = less(magnitude, Format::kFirstSpecial);
    high = hn::Or(high, hn::IfThenZeroElse(is_usual, hn::Set(DByte(), 0x7F)));
    high = hn::Or(high, hn::And(bytes, hn::Set(DByte(), 0x80)));

    const auto lower = hn::BitCast(DShort(), hn::InterleaveLower(DByte(), low, high));
    const auto upper = hn::BitCast(DShort(), hn::InterleaveUpper(DByte(), low, high));
    const auto zero = hn::Zero(DShort());
    return {hn::BitCast(D(), hn::InterleaveLower(DShort(), zero, lower)),
            hn::BitCast(D(), hn::InterleaveUpper(DShort(), zero, lower)),
            hn::BitCast(D(), hn::InterleaveLower(DShort(), zero, upper)),
            hn::BitCast(D(), hn::InterleaveUpper(DShort(), zero, upper))};
  }

  /// Of NaNs: E4M3 writes its one NaN, the other formats their largest; see with_nan.
  static HWY_INLINE VByte narrow(const Quad& quad) {
    const VByte codes = evens(shorts(code(quad.a), code(quad.b)), shorts(code(quad.c), code(quad.d)));
    if constexpr (Format::kLargest != Format::kQuietNan) return hn::Or(codes, signs(quad));
    const auto is_nan = hn::VecFromMask(DByte(), hn::Eq(codes, hn::Set(DByte(), Format::kQuietNan)));
    return hn::Or(codes, hn::AndNot(is_nan, signs(quad)));
  }

  /// `bytes`, narrowed from `quad`, with the one NaN where that is NaN.
  static VByte with_nan(VByte bytes, const Quad& quad) {
    const auto nan = [](hn::Vec<D> value)
                         HWY_ATTR { return hn::BitCast(DInt(), hn::VecFromMask(D(), hn::IsNaN(value))); };
    const auto lower = hn::ReorderDemote2To(DSignedShort(), nan(quad.a), nan(quad.b));
    const auto upper = hn::ReorderDemote2To(DSignedShort(), nan(quad.c), nan(quad.d));
    return hn::IfThenElse(hn::MaskFromVec(evens(lower, upper)), hn::Set(DByte(), Format::kQuietNan), bytes);
  }

 private:
  /// The units in the last place of the magnitude, and the exponent above its mantissa: the code plus kOffset.
  static HWY_INLINE hn::Vec<DInt> code(hn::Vec<D> value) {
    constexpr int kDropped = 23 - Format::kMantissa;
    const VBits bits = hn::BitCast(DBits(), value);
    const VBits magnitude = hn::And(bits, hn::Set(DBits(), 0x7FFF'FFFF));
    const auto exponent = hn::Max(hn::BitCast(DInt(), hn::And(bits, hn::Set(DBits(), 0x7F80'0000))),
                                  hn::Set(DInt(), (Format::kExponentGap + 1) << 23));
    // Beyond 2^107 the power is no number any more, but what comes out is far outside the codes all the same: above
    // them, or negative, which wraps to above them in shorts().
    const auto power = hn::Add(exponent, hn::Set(DInt(), kDropped << 23));
    const auto rounded = hn::Add(hn::BitCast(D(), magnitude), hn::BitCast(D(), power));
    const auto units = hn::Sub(hn::BitCast(DInt(), rounded), power);
    return hn::Add(units, hn::BitCast(DInt(), hn::ShiftRight<kDropped>(hn::BitCast(DBits(), exponent))));
  }
  static constexpr std::int16_t kOffset = (Format::kExponentGap + 1) << Format::kMantissa;

  /// Two vectors of codes, saturated.
  static HWY_INLINE VShort shorts(hn::Vec<DInt> a, hn::Vec<DInt> b) {
    const VShort codes = hn::ReorderDemote2To(DSignedShort(), a, b);
    return hn::Min(hn::Sub(codes, hn::Set(DSignedShort(), kOffset)), hn::Set(DSignedShort(), Format::kLargest));
  }

  static HWY_INLINE VByte signs(const Quad& quad) {
    const auto lower = hn::ReorderDemote2To(DSignedShort(), hn::BitCast(DInt(), quad.a), hn::BitCast(DInt(), quad.b));
    const auto upper = hn::ReorderDemote2To(DSignedShort(), hn::BitCast(DInt(), quad.c), hn::BitCast(DInt(), quad.d));
    return hn::And(odds(lower, upper), hn::Set(DByte(), 0x80));
  }

  /// The lower, and the upper, bytes of two vectors of shorts, block by block.
  static HWY_INLINE VByte evens(VShort a, VShort b) { return gathered<0>(a, b); }
  static HWY_INLINE VByte odds(VShort a, VShort b) { return gathered<1>(a, b); }

  template <int kFirst>
  static HWY_INLINE VByte gathered(VShort a, VShort b) {
    constexpr std::uint8_t kNone = 0x80;  // gives zero
    constexpr int k = kFirst;
    alignas(16) static constexpr std::uint8_t to_low[16] = {k,     k + 2, k + 4, k + 6, k + 8, k + 10, k + 12, k + 14,
                                                            kNone, kNone, kNone, kNone, kNone, kNone,  kNone,  kNone};
    alignas(16) static constexpr std::uint8_t to_high[16] = {kNone, kNone, kNone, kNone, kNone, kNone,  kNone,  kNone,
                                                             k,     k + 2, k + 4, k + 6, k + 8, k + 10, k + 12, k + 14};
    return hn::Or(hn::TableLookupBytesOr0(hn::BitCast(DByte(), a), hn::LoadDup128(DByte(), to_low)),
                  hn::TableLookupBytesOr0(hn::BitCast(DByte(), b), hn::LoadDup128(DByte(), to_high)));
  }

  static HWY_INLINE hn::Mask<DByte> less(VByte magnitude, int limit) {
    const auto signed_limit = hn::Set(DSignedByte(), static_cast<std::int8_t>(limit));
    return hn::RebindMask(DByte(), hn::Gt(signed_limit, hn::BitCast(DSignedByte(), magnitude)));
  }

  template <std::uint8_t (*kByte)(int)>
  static HWY_INLINE VByte table() {
    alignas(16) static constexpr std::uint8_t bytes[16] = {kByte(0), kByte(1), kByte(2), kByte(3),
                                                           kByte(4), kByte(5), kByte(6), kByte(7)};
    return hn::LoadDup128(DByte(), bytes);
  }
};

/// Bytes narrowed from floats that were loaded in order, and the other way round.
template <class DByte>
struct StackedOrder {
  using DBits = hn::Repartition<std::uint32_t, DByte>;
  static constexpr std::size_t kLanes = hn::MaxLanes(DBits());
  static constexpr std::size_t kBlocks = kLanes / 4;

  static HWY_INLINE hn::Vec<DByte> in_order(hn::Vec<DByte> bytes) { return moved<4, kBlocks>(bytes); }
  static HWY_INLINE hn::Vec<DByte> stacked(hn::Vec<DByte> bytes) { return moved<kBlocks, 4>(bytes); }

 private:
  /// Transposes the groups of four bytes as a matrix of kRows x kColumns, read by rows.
  template <std::size_t kRows, std::size_t kColumns>
  static HWY_INLINE hn::Vec<DByte> moved(hn::Vec<DByte> bytes) {
    if constexpr (kBlocks == 1) return bytes;
    alignas(64) std::int32_t from[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      from[i] = static_cast<std::int32_t>(i % kColumns * kRows + i / kColumns);
    }
    const auto groups = hn::BitCast(DBits(), bytes);
    return hn::BitCast(DByte(), hn::TableLookupLanes(groups, hn::SetTableIndices(DBits(), from)));
  }
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#endif
