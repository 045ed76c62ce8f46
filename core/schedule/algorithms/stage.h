#pragma once

#include <cstdint>
#include <span>

#include "core/schedule/step.h"

namespace foldcast::schedule {

/// What a network stage of an all_reduce, reduce, broadcast or send_recv works on, and among whom. A flat call has
/// members 0..n-1, source = whole input and target = whole output; behind a node stage the members are one rank a node
/// and source and target name the shard that this member owns.
struct Stage {
  std::span<const std::int32_t> members;  ///< ranks of the communicator, in the order of the algorithm
  std::int32_t self = 0;                  ///< index in `members` of the rank being built for
  std::int32_t root = 0;                  ///< index in `members`: reduce, broadcast; of send_recv the sender
  Chunk source;                           ///< what this rank contributes; span 1. Broadcast: only the root's is read
  Chunk target;                           ///< where the result goes; the same part. Reduce: only the root's is written
  std::uint32_t channel = 0;
};

/// Part `i` of `n` of a chunk, `span` parts long where the chunk has span 1.
constexpr Chunk part(const Chunk& whole, std::uint32_t i, std::uint32_t n, std::uint32_t span = 1) {
  return {whole.space, whole.index * n + i * whole.span, whole.of * n, whole.span * span};
}

/// The place of `data` in a scratch unit: cut the same way, because only equal parts have equally many elements.
constexpr Chunk in_scratch(const Chunk& data, std::uint32_t unit) {
  return {Space::kScratch, unit * data.of + data.index % data.of, data.of, data.span};
}

/// `span` consecutive parts, from `index` on, of a whole that is cut into `of`.
struct Part {
  std::uint32_t index = 0;
  std::uint32_t of = 1;
  std::uint32_t span = 1;
  friend bool operator==(const Part&, const Part&) = default;
};

/// Parts `first` to `last` - 1 as one; they must follow each other.
constexpr Part joined(std::span<const Part> parts, std::uint32_t first, std::uint32_t last) {
  const Part& begin = parts[first];
  const Part& end = parts[last - 1];
  return {begin.index, begin.of, end.index + end.span - begin.index};
}

/// A memory as long as the whole: the input, the output or a scratch unit. Of an input or output that is only one block
/// of the whole, only that block may be named.
struct Place {
  Space space = Space::kInput;
  std::uint32_t unit = 0;  ///< of scratch
  constexpr Chunk at(const Part& part) const {
    return {space, space == Space::kScratch ? unit * part.of + part.index : part.index, part.of, part.span};
  }
  friend bool operator==(const Place&, const Place&) = default;
};

/// What a network stage of a collective with a block for each rank works on. Member i has block i: one rank's, or
/// those of a node's ranks.
///
///   reduce_scatter: source has all blocks, target only the own one.    all_gather: the other way round.
///   gather:  source has the own block; target, all, is the root's.     scatter: the other way round.
///   all_to_all: both have all blocks.
struct BlockStage {
  std::span<const std::int32_t> members;  ///< ranks of the communicator, in the order of the algorithm
  std::int32_t self = 0;                  ///< index in `members` of the rank being built for
  std::int32_t root = 0;                  ///< index in `members`: gather, scatter
  std::span<const Part> blocks;           ///< of each member; apart from each other, equal in `of`
  Place source;
  Place target;
  std::uint32_t channel = 0;
  /// all_to_all: whether source and target are one memory on this rank. If not, the schedule is right only for memory
  /// that is apart (see Builder::set_apart); other collectives are right both ways.
  bool in_place = false;
};

}  // namespace foldcast::schedule
