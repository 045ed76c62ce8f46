#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::kernels {

// All of these may be called from any thread and never block. A broken argument aborts: what a user can get wrong is
// checked where the call enters. Every NaN they compute is the positive quiet NaN without payload, so that operands in
// either order give the same bits.

/// target[i] = a[i] op b[i] for `count` elements. `target` may equal `a` or `b`; otherwise they do not overlap. Any
/// alignment. Numbers as in docs/design.md, section 9: integers wrap; float min/max: NaN wins, -0 < +0; 16-bit floats
/// are computed in float32 and rounded to nearest even once; kAvg sums. dtype and op must be valid.
void reduce(ReduceOp op, Datatype dtype, std::byte* target, const std::byte* a, const std::byte* b, std::size_t count);

/// target[i] = inputs[0][i] op inputs[1][i] op ... left to right; 16-bit floats accumulate in float32 and round once.
/// At least one input (one: a copy). `target` may equal any one input.
void reduce_n(ReduceOp op, Datatype dtype, std::byte* target, std::span<const std::byte* const> inputs,
              std::size_t count);

/// target[i] = target[i] / divisor: floats in their own precision (16-bit in float32), integers rounding toward zero.
/// The divisor is at least one; one leaves the target as it is.
void divide(Datatype dtype, std::byte* target, std::uint64_t divisor, std::size_t count);

/// What run-time dispatch chose, e.g. "AVX2", for `foldcast info`.
std::string_view cpu_target();

}  // namespace foldcast::kernels
