#include "kernels/formats.h"

#include <limits>

namespace foldcast::kernels {
namespace {

constexpr std::uint32_t kFloatMagnitude = 0x7FFF'FFFF;
constexpr std::uint32_t kFloatInfinity = 0x7F80'0000;
constexpr std::uint16_t kHalfInfinity = 0x7C00;
constexpr std::uint16_t kQuietHalf = 0x0200;
constexpr std::uint16_t kQuietBfloat16 = 0x0040;

/// One of the 8-bit floats, by its fields.
struct Small {
  int mantissa_bits;
  std::uint32_t rebias;    ///< what its exponents lack to be float32's
  std::uint32_t special;   ///< magnitudes from here on are infinity or NaN
  std::uint32_t infinity;  ///< zero: it has none
  std::uint32_t nan;       ///< as it is written
  std::uint32_t overflow;  ///< float32 magnitudes above this are too large
};
constexpr Small kE4m3{.mantissa_bits = 3,
                      .rebias = 120,
                      .special = 0x7F,
                      .infinity = 0,
                      .nan = 0x7F,
                      .overflow = std::bit_cast<std::uint32_t>(464.0F)};  // ties with 480, to the even 448
constexpr Small kE5m2{.mantissa_bits = 2,
                      .rebias = 112,
                      .special = 0x7C,
                      .infinity = 0x7C,
                      .nan = 0x7E,
                      .overflow = std::bit_cast<std::uint32_t>(61440.0F) - 1};  // ties with 2^16, which is even

float widened(const Small& format, std::uint8_t bits) {
  const std::uint32_t magnitude = bits & 0x7F;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24;
  if (magnitude >= format.special) {
    if (magnitude != format.infinity) return std::numeric_limits<float>::quiet_NaN();
    return std::bit_cast<float>(sign | kFloatInfinity);
  }
  const std::uint32_t in_place = magnitude << (23 - format.mantissa_bits);
  const float scaled = std::bit_cast<float>(in_place) * std::bit_cast<float>((format.rebias + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

std::uint8_t narrowed(const Small& format, float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kFloatMagnitude;
  const std::uint32_t sign = (bits >> 24) & 0x80;
  if (magnitude > kFloatInfinity) return static_cast<std::uint8_t>(format.nan);
  if (magnitude > format.overflow) {
    return static_cast<std::uint8_t>(format.infinity == 0 ? format.nan : format.infinity | sign);
  }
  const int dropped = 23 - format.mantissa_bits;
  const std::uint32_t first_normal = (format.rebias + 1) << 23;
  std::uint32_t small;
  if (magnitude < first_normal) {
    // The power of two whose unit in the last place is the format's least number: the addition rounds to it, to even.
    const std::uint32_t power = first_normal + (static_cast<std::uint32_t>(dropped) << 23);
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(power);
    small = std::bit_cast<std::uint32_t>(sum) - power;
  } else {
    const std::uint32_t odd = (magnitude >> dropped) & 1;
    small = (magnitude - (format.rebias << 23) + (1U << (dropped - 1)) - 1 + odd) >> dropped;
  }
  return static_cast<std::uint8_t>(small | sign);
}

std::uint16_t sign_of(std::uint32_t float_bits) { return static_cast<std::uint16_t>((float_bits >> 16) & 0x8000); }

}  // namespace

float float_from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t magnitude = bits & 0x7FFF;
  if (magnitude >= kHalfInfinity) return std::bit_cast<float>(sign | kFloatInfinity | (magnitude << 13));
  // The exponent field, moved as it is, is too small by the difference of the biases. Multiplying by that power of two
  // is exact, and normalises subnormals on the way.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

std::uint16_t half_from_float(float value) {
  constexpr std::uint32_t kFirstOverflow = 0x477F'F000;  // 65520: halfway between the largest half and 2^16
  constexpr std::uint32_t kFirstNormal = 0x3880'0000;    // 2^-14
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kFloatMagnitude;
  std::uint32_t half;
  if (magnitude > kFloatInfinity) {
    half = kHalfInfinity | kQuietHalf | ((magnitude >> 13) & 0x3FF);
  } else if (magnitude >= kFirstOverflow) {
    half = kHalfInfinity;
  } else if (magnitude < kFirstNormal) {
    // One unit in the last place of 0.5 is 2^-24, the smallest half: the addition rounds to it, to even.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1;
    half = (magnitude - (112U << 23) + 0xFFF + odd) >> 13;
  }
  return static_cast<std::uint16_t>(half | sign_of(bits));
}

float float_from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t bfloat16_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & kFloatMagnitude) > kFloatInfinity) return static_cast<std::uint16_t>((bits >> 16) | kQuietBfloat16);
  const std::uint32_t odd = (bits >> 16) & 1;
  return static_cast<std::uint16_t>((bits + 0x7FFF + odd) >> 16);  // a carry out of the mantissa overflows to infinity
}

float float_from_e4m3(std::uint8_t bits) { return widened(kE4m3, bits); }
std::uint8_t e4m3_from_float(float value) { return narrowed(kE4m3, value); }
float float_from_e5m2(std::uint8_t bits) { return widened(kE5m2, bits); }
std::uint8_t e5m2_from_float(float value) { return narrowed(kE5m2, value); }

}  // namespace foldcast::kernels
