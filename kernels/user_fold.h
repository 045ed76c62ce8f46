#pragma once

#include "kernels/cpu/families.h"
#include "kernels/user_op.h"

namespace foldcast::kernels {

/// One reduction with a user's function; `fold.op` and `fold.streamed` do not count. Operands keep their order and are
/// folded left to right, block by block through the stack, so that the target may be any input of any alignment.
void fold_with(const UserOp& op, const Fold& fold);

}  // namespace foldcast::kernels
