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
// either order give the same bits. Numbers as in docs/numbers.md: integers wrap; float min/max: NaN wins, -0 < +0; 16-
// and 8-bit floats are computed in float32 and rounded to nearest even once. Any alignment.
//
// `op` is defined for `dtype` (is_defined in reduce_op.h; kAvg and kPremulSum sum) or a registered user's op
// (user_op.h).

/// target[i] = a[i] op b[i] for `count` elements. `target` may equal `a` or `b`; otherwise they do not overlap.
void reduce(ReduceOp op, Datatype dtype, std::byte* target, const std::byte* a, const std::byte* b, std::size_t count);

/// target[i] = inputs[0][i] op inputs[1][i] op ... left to right; small floats accumulate in float32 and round once.
/// At least one input (one: a copy). `target` may equal any one input.
void reduce_n(ReduceOp op, Datatype dtype, std::byte* target, std::span<const std::byte* const> inputs,
              std::size_t count);

/// target[i] = target[i] / divisor: floats in their own precision (small ones in float32), integers rounding toward
/// zero. The divisor is at least one; one leaves the target as it is. Not of bool.
void divide(Datatype dtype, std::byte* target, std::uint64_t divisor, std::size_t count);

/// target[i] = source[i] * *scalar, which is one element of `dtype`: the multiplication of kPremulSum. `target` may
/// equal `source`; otherwise they do not overlap. Not of bool.
void scale(Datatype dtype, std::byte* target, const std::byte* source, std::size_t count, const void* scalar);

/// Copies `bytes` bytes. Equal pointers are no copy; otherwise the two do not overlap. As memcpy, but with vector loads
/// and stores of any size: what a C library's memcpy does above some KiB (string instructions) is several times slower
/// on some processors. Large copies go past the caches.
void copy_bytes(std::byte* target, const std::byte* source, std::size_t bytes);

/// What run-time dispatch chose, e.g. "AVX2", for `foldcast info`.
std::string_view cpu_target();

}  // namespace foldcast::kernels
