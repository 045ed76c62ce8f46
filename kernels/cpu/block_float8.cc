#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/block_float8.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/conversions.h"
#include "kernels/cpu/float8-inl.h"
#include "kernels/cpu/memory-inl.h"

#ifndef FOLDCAST_KERNELS_CPU_BLOCK_SCALE
#define FOLDCAST_KERNELS_CPU_BLOCK_SCALE
namespace foldcast::kernels {

/// Infinity and NaN begin here.
constexpr std::uint32_t kFirstSpecial = 0x7F80'0000;

/// A block's first byte, from the bits of its largest finite magnitude: that lands in [128, 256), whose codes' exponent
/// is 7 above that of one.
inline std::uint32_t scale_of(std::uint32_t largest) {
  const std::uint32_t exponent = largest >> 23;
  return exponent < 7 ? 0 : exponent - 7;
}
/// What a code is worth. The least one is a subnormal float.
inline float unit_of(std::uint32_t scale) { return std::bit_cast<float>(scale == 0 ? 0x0040'0000 : scale << 23); }
/// Its inverse, exactly, for every scale that is written.
inline float inverse_unit_of(std::uint32_t scale) { return std::bit_cast<float>((254 - scale) << 23); }

}  // namespace foldcast::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <bool kRound>
void encode_full_block(std::byte* wire, const std::byte* values, std::byte* rounded) {
  float block[kBlockValues];
  std::memcpy(block, values, sizeof(block));
  encode_block(wire, block, block, kBlockValues);
  if constexpr (kRound) std::memcpy(rounded, block, sizeof(block));
}

void decode_full_block(std::byte* values, const std::byte* wire) {
  float block[kBlockValues];
  decode_block(block, wire, kBlockValues);
  std::memcpy(values, block, sizeof(block));
}

#else

using D = hn::CappedTag<float, 8>;  // four vectors are at most a block
using DInt = hn::RebindToSigned<D>;
using Codec = Float8<BlockE4m3, D>;
using Order = StackedOrder<typename Codec::DByte>;
constexpr std::size_t kVector = hn::MaxLanes(D()) * sizeof(float);
constexpr std::size_t kVectors = kBlockValues * sizeof(float) / kVector;

HWY_INLINE hn::Vec<DInt> magnitude(hn::Vec<D> value) {
  return hn::And(hn::BitCast(DInt(), value), hn::Set(DInt(), 0x7FFF'FFFF));
}

template <bool kRound>
HWY_INLINE void encode_full_block(std::byte* wire, const std::byte* values, std::byte* rounded) {
  auto most = hn::Zero(DInt());
  for (std::size_t i = 0; i < kVectors; ++i) most = hn::Max(most, magnitude(get(D(), values + i * kVector)));
  const auto largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(DInt(), most)));
  if (HWY_UNLIKELY(largest >= kFirstSpecial)) {
    float block[kBlockValues];
    std::memcpy(block, values, sizeof(block));
    encode_block(wire, block, block, kBlockValues);
    if constexpr (kRound) std::memcpy(rounded, block, sizeof(block));
    return;
  }
  const std::uint32_t scale = scale_of(largest);
  const auto inverse = hn::Set(D(), inverse_unit_of(scale));
  const auto unit = hn::Set(D(), unit_of(scale));
  *wire = static_cast<std::byte>(scale);
  for (std::size_t i = 0; i < kVectors; i += 4) {
    const std::byte* const at = values + i * kVector;
    const auto bytes =
        Codec::narrow({hn::Mul(get(D(), at), inverse), hn::Mul(get(D(), at + kVector), inverse),
                       hn::Mul(get(D(), at + 2 * kVector), inverse), hn::Mul(get(D(), at + 3 * kVector), inverse)});
    Cached::put(Order::in_order(bytes), typename Codec::DByte(), wire + 1 + i * kVector / sizeof(float));
    if constexpr (kRound) {
      std::byte* const to = rounded + i * kVector;
      const auto quad = Codec::widen(bytes);
      Cached::put(hn::Mul(quad.a, unit), D(), to);
      Cached::put(hn::Mul(quad.b, unit), D(), to + kVector);
      Cached::put(hn::Mul(quad.c, unit), D(), to + 2 * kVector);
      Cached::put(hn::Mul(quad.d, unit), D(), to + 3 * kVector);
    }
  }
}

HWY_INLINE void decode_full_block(std::byte* values, const std::byte* wire) {
  const auto unit = hn::Set(D(), unit_of(static_cast<std::uint32_t>(*wire)));
  for (std::size_t i = 0; i < kVectors; i += 4) {
    const auto bytes = get(typename Codec::DByte(), wire + 1 + i * kVector / sizeof(float));
    const auto quad = Codec::widen(Order::stacked(bytes));
    std::byte* const to = values + i * kVector;
    Cached::put(hn::Mul(quad.a, unit), D(), to);
    Cached::put(hn::Mul(quad.b, unit), D(), to + kVector);
    Cached::put(hn::Mul(quad.c, unit), D(), to + 2 * kVector);
    Cached::put(hn::Mul(quad.d, unit), D(), to + 3 * kVector);
  }
}

#endif

/// The last block is filled up with zeros, which change neither its scale nor its codes.
template <bool kRound>
void encode_all(std::byte* wire, const std::byte* values, std::byte* rounded, std::size_t count) {
  for (; count >= kBlockValues; count -= kBlockValues) {
    encode_full_block<kRound>(wire, values, rounded);
    wire += kBlockBytes;
    values += kBlockValues * sizeof(float);
    if constexpr (kRound) rounded += kBlockValues * sizeof(float);
  }
  if (count == 0) return;
  std::byte staged_values[kBlockValues * sizeof(float)] = {};
  std::byte staged[kBlockBytes];
  std::memcpy(staged_values, values, count * sizeof(float));
  encode_full_block<kRound>(staged, staged_values, staged_values);
  std::memcpy(wire, staged, 1 + count);
  if constexpr (kRound) std::memcpy(rounded, staged_values, count * sizeof(float));
}

void encode_blocks(std::byte* wire, const float* values, std::size_t count) {
  encode_all<false>(wire, reinterpret_cast<const std::byte*>(values), nullptr, count);
}

void encode_and_round_blocks(std::byte* wire, float* values, std::size_t count) {
  auto* const at = reinterpret_cast<std::byte*>(values);
  encode_all<true>(wire, at, at, count);
}

void decode_blocks(float* values, const std::byte* wire, std::size_t count) {
  auto* at = reinterpret_cast<std::byte*>(values);
  for (; count >= kBlockValues; count -= kBlockValues) {
    decode_full_block(at, wire);
    wire += kBlockBytes;
    at += kBlockValues * sizeof(float);
  }
  if (count == 0) return;
  std::byte staged_values[kBlockValues * sizeof(float)];
  std::byte staged[kBlockBytes] = {};
  std::memcpy(staged, wire, 1 + count);
  decode_full_block(staged_values, staged);
  std::memcpy(at, staged_values, count * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(encode_blocks);
HWY_EXPORT(encode_and_round_blocks);
HWY_EXPORT(decode_blocks);

void encode_blocks(std::byte* wire, const float* values, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_blocks)(wire, values, count);
}
void encode_and_round_blocks(std::byte* wire, float* values, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_and_round_blocks)(wire, values, count);
}
void decode_blocks(float* values, const std::byte* wire, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_blocks)(values, wire, count);
}

static std::uint8_t block_code(float scaled) {
  constexpr std::uint8_t kLargest = 0x77;
  constexpr std::uint8_t kInfinity = 0x78;
  constexpr std::uint8_t kNan = 0x7C;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t size = bits & 0x7FFF'FFFF;
  if (size > kFirstSpecial) return kNan;
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80);
  if (size == kFirstSpecial) return kInfinity | sign;
  const std::uint8_t code = e4m3_from_float(std::bit_cast<float>(size));
  return (code < kLargest ? code : kLargest) | sign;
}

static float block_value(std::uint8_t code) {
  const std::uint8_t size = code & 0x7F;
  if (size < 0x78) return float_from_e4m3(code);
  // As the bits would stand in a float: only the exponent becomes all ones.
  const auto in_place = static_cast<std::uint32_t>(size & 7) << 20;
  return std::bit_cast<float>(static_cast<std::uint32_t>(code & 0x80) << 24 | kFirstSpecial | in_place);
}

void encode_block(std::byte* wire, const float* values, float* rounded, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFF'FFFF;
    if (size < kFirstSpecial && size > largest) largest = size;
  }
  const std::uint32_t scale = scale_of(largest);
  wire[0] = static_cast<std::byte>(scale);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t code = block_code(values[i] * inverse_unit_of(scale));
    wire[1 + i] = static_cast<std::byte>(code);
    if (rounded != nullptr) rounded[i] = block_value(code) * unit_of(scale);
  }
}

void decode_block(float* values, const std::byte* wire, std::size_t count) {
  const float unit = unit_of(static_cast<std::uint32_t>(wire[0]));
  for (std::size_t i = 0; i < count; ++i) values[i] = block_value(static_cast<std::uint8_t>(wire[1 + i])) * unit;
}

}  // namespace foldcast::kernels
#endif
