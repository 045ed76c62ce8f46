#pragma once

#include <bit>
#include <cstdint>

namespace foldcast::kernels {

/// Scalar conversions of the 16-bit floats: exact widening; narrowing rounds to nearest even, overflows to infinity,
/// keeps NaN (quiet). The reference against which vector code is tested.
float float_from_half(std::uint16_t bits);
std::uint16_t half_from_float(float value);
float float_from_bfloat16(std::uint16_t bits);
std::uint16_t bfloat16_from_float(float value);

}  // namespace foldcast::kernels
