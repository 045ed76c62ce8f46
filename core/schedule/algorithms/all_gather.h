#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of an all-gather: every target gets every member's block. Any group size from 1 up.
/// Each block of a target is written once, and no scratch is used.
void all_gather_ring(Builder& builder, const BlockStage& stage);
void all_gather_doubling(Builder& builder, const BlockStage& stage);  ///< adjacent blocks
void all_gather_bruck(Builder& builder, const BlockStage& stage);     ///< adjacent blocks
void all_gather_direct(Builder& builder, const BlockStage& stage);

}  // namespace foldcast::schedule
