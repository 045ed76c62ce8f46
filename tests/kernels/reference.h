#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::kernels::test {

using Bytes = std::vector<std::byte>;

// The arithmetic of docs/design.md, section 9, written for clarity and apart from the kernels: integers in 128 bits,
// floats by value through frexp and ldexp. One element at a time; nothing here is fast.

/// inputs[0] op inputs[1] op ..., left to right.
Bytes reference_fold(ReduceOp op, Datatype dtype, const std::vector<Bytes>& inputs);
Bytes reference_divide(Datatype dtype, const Bytes& values, std::uint64_t divisor);
/// `scalar` is one element.
Bytes reference_scale(Datatype dtype, const Bytes& values, const Bytes& scalar);

/// A float with `exponent_bits` and `mantissa_bits`, by value; NaN for every NaN.
double decode_float(std::uint32_t bits, int exponent_bits, int mantissa_bits);
/// The nearest such float, ties to even; NaN becomes the positive quiet NaN without payload.
std::uint32_t encode_float(double value, int exponent_bits, int mantissa_bits);

/// The 8-bit float whose topmost exponent holds numbers too: up to 448; beyond, and for NaN, it is 0x7F.
double decode_e4m3(std::uint32_t bits);
std::uint32_t encode_e4m3(double value);

}  // namespace foldcast::kernels::test
