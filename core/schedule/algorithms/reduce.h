#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of a reduction to the root. Any group size from 1 up, any root. Only the root's
/// target is written, and only with results.
void reduce_knomial(Builder& builder, const Stage& stage);   ///< radix 2
void reduce_knomial4(Builder& builder, const Stage& stage);  ///< radix 4
void reduce_scatter_gather(Builder& builder, const Stage& stage);
void reduce_chain(Builder& builder, const Stage& stage);
void reduce_double_tree(Builder& builder, const Stage& stage);

}  // namespace foldcast::schedule
