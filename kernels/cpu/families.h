#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::kernels {

/// One reduction, its arguments checked: at least two inputs, at least one element, a built-in `op` that is defined for
/// `dtype` and neither kAvg nor kPremulSum. `target` may equal any one input.
struct Fold {
  ReduceOp op;
  Datatype dtype;
  std::byte* target;
  const std::byte* const* inputs;
  std::size_t input_count;
  std::size_t bytes;  ///< of each operand
  bool streamed;      ///< the target is better written past the caches
};

/// One number applied to each element, the arguments checked: at least one element, not of bool. `target` may equal
/// `source`.
struct Transform {
  Datatype dtype;
  std::byte* target;
  const std::byte* source;
  std::size_t bytes;
};

/// Targets of this size on are written past the caches: more than a core's share of them, and so soon evicted anyway.
inline constexpr std::size_t kStreamedBytes = std::size_t{8} << 20;
/// Of a streamed target: a cache line, and at least a vector.
inline constexpr std::size_t kStreamAlignment = 64;

// One translation unit for each family of types, each compiled once per instruction set.
void fold_integers(const Fold& fold);       ///< sum, prod, min, max
void fold_integer_logic(const Fold& fold);  ///< the logical and bitwise ops, and all ops of bool
void fold_floats(const Fold& fold);
void fold_half_floats(const Fold& fold);
void fold_float8(const Fold& fold);

void divide_integers(const Transform& transform, std::uint64_t divisor);  ///< a divisor of two or more
void divide_floats(const Transform& transform, std::uint64_t divisor);
void divide_half_floats(const Transform& transform, std::uint64_t divisor);
void divide_float8(const Transform& transform, std::uint64_t divisor);

/// `scalar` is one element of the datatype, of any alignment.
void scale_integers(const Transform& transform, const std::byte* scalar);
void scale_floats(const Transform& transform, const std::byte* scalar);
void scale_half_floats(const Transform& transform, const std::byte* scalar);
void scale_float8(const Transform& transform, const std::byte* scalar);

void copy_vectors(std::byte* target, const std::byte* source, std::size_t bytes);

/// The instruction set the floats' family runs on; all families choose alike.
std::string_view chosen_target();

}  // namespace foldcast::kernels
