#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of a broadcast of the root's source to all targets, the root's as well. Any group
/// size from 1 up, any root. Each part of a target is written once, and no scratch is used.
void broadcast_knomial(Builder& builder, const Stage& stage);   ///< radix 2
void broadcast_knomial4(Builder& builder, const Stage& stage);  ///< radix 4
void broadcast_scatter_allgather(Builder& builder, const Stage& stage);
void broadcast_chain(Builder& builder, const Stage& stage);
void broadcast_double_tree(Builder& builder, const Stage& stage);

}  // namespace foldcast::schedule
