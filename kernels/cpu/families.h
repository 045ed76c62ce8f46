#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::kernels {

/// One reduction, its arguments checked: at least two inputs, at least one element, `op` not kAvg. `target` may equal
/// any one input.
struct Fold {
  ReduceOp op;
  Datatype dtype;
  std::byte* target;
  const std::byte* const* inputs;
  std::size_t input_count;
  std::size_t bytes;  ///< of each operand
};

/// One division in place, its arguments checked: a divisor of two or more, at least one element.
struct Division {
  Datatype dtype;
  std::byte* target;
  std::uint64_t divisor;
  std::size_t bytes;
};

// One translation unit for each family of types, each compiled once per instruction set.
void fold_integers(const Fold& fold);
void fold_floats(const Fold& fold);
void fold_half_floats(const Fold& fold);

void divide_integers(const Division& division);
void divide_floats(const Division& division);
void divide_half_floats(const Division& division);

/// The instruction set the floats' family runs on; all families choose alike.
std::string_view chosen_target();

}  // namespace foldcast::kernels
