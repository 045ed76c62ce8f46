#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of a scatter: every member's target gets its block of the root's source, written
/// once. Any group size from 1 up, any root.
void scatter_direct(Builder& builder, const BlockStage& stage);
void scatter_knomial(Builder& builder, const BlockStage& stage);  ///< adjacent blocks

}  // namespace foldcast::schedule
