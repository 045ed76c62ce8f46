#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of a reduce-scatter: block i, reduced over all members' sources, goes to member i's
/// target. Any group size from 1 up. Of a target only the own block is written, and only with results.
void reduce_scatter_ring(Builder& builder, const BlockStage& stage);
void reduce_scatter_halving(Builder& builder, const BlockStage& stage);  ///< adjacent blocks
void reduce_scatter_direct(Builder& builder, const BlockStage& stage);

}  // namespace foldcast::schedule
