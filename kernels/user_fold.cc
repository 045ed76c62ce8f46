#include "kernels/user_fold.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/reducer.h"

namespace foldcast::kernels {
namespace {

/// A multiple of every element's size; two of them fit any thread's stack and the nearest cache.
constexpr std::size_t kBlock = 4096;

bool is_aligned(const std::byte* at, Datatype dtype) {
  return reinterpret_cast<std::uintptr_t>(at) % size_of(dtype) == 0;
}

/// Two inputs, and a target that is not the first: the target itself is the function's right operand.
bool may_run_in_target(const Fold& fold) {
  return fold.input_count == 2 && fold.target != fold.inputs[0] && is_aligned(fold.target, fold.dtype) &&
         is_aligned(fold.inputs[0], fold.dtype);
}

}  // namespace

void fold_with(const UserOp& op, const Fold& fold) {
  if (may_run_in_target(fold)) {
    copy_bytes(fold.target, fold.inputs[1], fold.bytes);
    return op.function(fold.inputs[0], fold.target, fold.bytes / size_of(fold.dtype), fold.dtype, op.context);
  }
  alignas(64) std::byte blocks[2][kBlock];
  for (std::size_t offset = 0; offset < fold.bytes; offset += kBlock) {
    const std::size_t bytes = std::min(kBlock, fold.bytes - offset);
    std::byte* sum = blocks[0];
    std::byte* next = blocks[1];
    copy_bytes(sum, fold.inputs[0] + offset, bytes);
    for (std::size_t k = 1; k < fold.input_count; ++k) {
      copy_bytes(next, fold.inputs[k] + offset, bytes);
      op.function(sum, next, bytes / size_of(fold.dtype), fold.dtype, op.context);
      std::swap(sum, next);
    }
    copy_bytes(fold.target + offset, sum, bytes);
  }
}

}  // namespace foldcast::kernels
