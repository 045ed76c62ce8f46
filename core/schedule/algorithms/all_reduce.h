#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/status.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// The part of a call that a network stage works on, and among whom. A flat all-reduce has members 0..n-1, source =
/// whole input and target = whole output; behind a node stage the members are one rank a node and source = target = the
/// shard of the output that this member owns.
struct Stage {
  std::span<const std::int32_t> members;  ///< ranks of the communicator, in the order of the algorithm
  std::int32_t self = 0;                  ///< index in `members` of the rank being built for
  Chunk source;                           ///< what this rank contributes; span 1
  Chunk target;                           ///< where the result goes; the same {index, of}, span 1
  std::uint32_t channel = 0;
};

/// Part `i` of `n` of a chunk with span 1, `span` parts long.
constexpr Chunk part(const Chunk& whole, std::uint32_t i, std::uint32_t n, std::uint32_t span = 1) {
  return {whole.space, whole.index * n + i, whole.of * n, span};
}

/// The place of `data` in a scratch unit: cut the same way, because only equal parts have equally many elements.
constexpr Chunk in_scratch(const Chunk& data, std::uint32_t unit) {
  return {Space::kScratch, unit * data.of + data.index % data.of, data.of, data.span};
}

using AllReduceAlgorithm = void (*)(Builder&, const Stage&);

/// Each appends the all-reduce of one member to the builder. Any group size from 1 up (1: copies source to target).
/// Every rank ends with the same bits: operands are ordered by position, never by who computes.
void all_reduce_ring(Builder& builder, const Stage& stage);
void all_reduce_recursive_doubling(Builder& builder, const Stage& stage);
void all_reduce_halving_doubling(Builder& builder, const Stage& stage);
void all_reduce_double_tree(Builder& builder, const Stage& stage);

/// Name (as `--plan` and `explain` spell it), function and cost terms of each.
struct AllReduceEntry {
  std::string_view name;
  AllReduceAlgorithm build;
};
std::span<const AllReduceEntry> all_reduce_algorithms();
/// kInvalidArgument with the known names when there is none.
Result<AllReduceEntry> find_all_reduce(std::string_view name);

}  // namespace foldcast::schedule
