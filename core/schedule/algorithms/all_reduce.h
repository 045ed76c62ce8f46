#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Each appends the all-reduce of one member to the builder. Any group size from 1 up (1: copies source to target).
/// Every rank ends with the same bits: operands are ordered by position, never by who computes.
void all_reduce_ring(Builder& builder, const Stage& stage);
void all_reduce_recursive_doubling(Builder& builder, const Stage& stage);
void all_reduce_halving_doubling(Builder& builder, const Stage& stage);
void all_reduce_double_tree(Builder& builder, const Stage& stage);
void all_reduce_direct(Builder& builder, const Stage& stage);
void all_reduce_gather_all(Builder& builder, const Stage& stage);

}  // namespace foldcast::schedule
