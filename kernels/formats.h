#pragma once

#include <bit>
#include <cstdint>

namespace foldcast::kernels {

// Scalar conversions of the small floats: widening is exact; narrowing rounds to nearest, ties to even. The reference
// against which vector code is tested.

/// The 16-bit floats: narrowing overflows to infinity and keeps NaN (quiet).
float float_from_half(std::uint16_t bits);
std::uint16_t half_from_float(float value);
float float_from_bfloat16(std::uint16_t bits);
std::uint16_t bfloat16_from_float(float value);

/// OCP's 8-bit floats. E4M3 has no infinity: what rounds beyond 448 becomes NaN, so that an overflow in a reduction is
/// seen in its result and not taken for a number; E5M2 overflows to infinity. Each NaN, of either sign, becomes the
/// format's one NaN, 0x7F or 0x7E, and float32's quiet NaN without payload.
float float_from_e4m3(std::uint8_t bits);
std::uint8_t e4m3_from_float(float value);
float float_from_e5m2(std::uint8_t bits);
std::uint8_t e5m2_from_float(float value);

}  // namespace foldcast::kernels
