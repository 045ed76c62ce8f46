#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of a gather: the root's target gets every member's block, each written once. Any
/// group size from 1 up, any root. No other target is written.
void gather_direct(Builder& builder, const BlockStage& stage);
void gather_knomial(Builder& builder, const BlockStage& stage);  ///< adjacent blocks

}  // namespace foldcast::schedule
