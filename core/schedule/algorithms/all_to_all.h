#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends one member's part of an all-to-all: block d of member s's source becomes block s of member d's target.
/// Any group size from 1 up. In place and not may be mixed among the members: the messages are the same.
void all_to_all_direct(Builder& builder, const BlockStage& stage);
void all_to_all_bruck(Builder& builder, const BlockStage& stage);  ///< adjacent blocks of one size

}  // namespace foldcast::schedule
