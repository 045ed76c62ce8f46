#include "kernels/formats.h"

namespace foldcast::kernels {
namespace {

constexpr std::uint32_t kFloatMagnitude = 0x7FFF'FFFF;
constexpr std::uint32_t kFloatInfinity = 0x7F80'0000;
constexpr std::uint16_t kHalfInfinity = 0x7C00;
constexpr std::uint16_t kQuietHalf = 0x0200;
constexpr std::uint16_t kQuietBfloat16 = 0x0040;

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

}  // namespace foldcast::kernels
