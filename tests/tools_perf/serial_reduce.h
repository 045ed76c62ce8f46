#pragma once

#include <cstddef>
#include <span>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::tools::testing {

/// Reduces `inputs` in their order, element by element, with one rounding an op; small floats are computed in float32.
/// Any op that is defined for the datatype but premul_sum, which is up to the caller.
void serial_reduce(Datatype dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* result,
                   std::size_t count);

/// Multiplies every element by *scalar, rounded once.
void serial_scale(Datatype dtype, const std::byte* scalar, std::byte* values, std::size_t count);

}  // namespace foldcast::tools::testing
