#pragma once

#include <cstddef>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "core/base/status.h"

namespace foldcast::kernels {

/// right[i] = left[i] op right[i] for `count` elements of `dtype`. `left` comes from the lower ranks. It must be
/// associative, may be called from any thread, from several at once, and for any part of a call; both pointers are
/// aligned to the element's size. What it does with a datatype it does not know is its own affair.
using UserFunction = void (*)(const void* left, void* right_and_result, std::size_t count, Datatype dtype,
                              void* context);

struct UserOp {
  UserFunction function = nullptr;
  void* context = nullptr;   ///< the caller's; must live until the op is unregistered
  bool commutative = false;  ///< a op b = b op a: the planner may choose algorithms that mix ranks
};

// The process's functions, by op. Thread-safe.

/// The lowest free op from ReduceOp::kFirstUser on, so that ranks which register in the same order get the same
/// numbers. kInvalidArgument without a function, kResourceExhausted when all kMaxUserOps are taken.
Result<ReduceOp> register_user_op(const UserOp& op);

/// Frees the op. No call that uses it may be outstanding. kInvalidArgument if it is not registered.
Status unregister_user_op(ReduceOp op);

/// Null if not registered; valid until unregistered. Never blocks.
const UserOp* find_user_op(ReduceOp op);

}  // namespace foldcast::kernels
