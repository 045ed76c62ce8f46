#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/datatype.h"

namespace foldcast::tools {

/// What the checker needs to know of a float format.
struct FloatFormat {
  int digits = 0;        ///< of the significand, the hidden one included
  int max_exponent = 0;  ///< 2^max_exponent is finite
  int min_exponent = 0;  ///< 2^min_exponent is normal
};
FloatFormat float_format(Datatype dtype);

/// The value of one element of a float datatype, exactly.
double decode_float(Datatype dtype, const std::byte* element);
/// Rounds to nearest, ties to even; overflow gives infinity, of float8_e4m3 (which has none) NaN.
void encode_float(Datatype dtype, double value, std::byte* element);

/// The value of one element of an integer datatype or bool, sign- or zero-extended.
std::uint64_t decode_integer(Datatype dtype, const std::byte* element);
/// The low bits of `value`.
void encode_integer(Datatype dtype, std::uint64_t value, std::byte* element);
constexpr bool is_signed(Datatype dtype) { return dtype < Datatype::kFloat16 && static_cast<int>(dtype) % 2 == 0; }

}  // namespace foldcast::tools
