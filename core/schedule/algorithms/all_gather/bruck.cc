// Bruck.
//
// In round k = 0, 1, ... each member sends the blocks of the 2^k members from itself on (counted around the circle) to
// the member 2^k before it, and receives those of the next 2^k members from the member 2^k behind it; in the last round
// only as many as are still missing. Everything goes to and comes from its final place, so a run of blocks that passes
// the circle's end travels as two messages.
//
// Steps: ceil(log2 n), for any n. Bytes sent per member: (n-1)/n N of the N bytes gathered, the least possible.
//
// J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all communications in
// multiport message-passing systems. IEEE TPDS 8(11), 1997.

#include <algorithm>

#include "core/schedule/algorithms/all_gather.h"

namespace foldcast::schedule {

void all_gather_bruck(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  /// Calls `move` with each stretch of memory that `count` blocks from `first` on, around the circle, are.
  const auto each_run = [&](std::uint32_t first, std::uint32_t count, auto move) {
    const std::uint32_t before_end = std::min(count, n - first);
    move(stage.target.at(joined(stage.blocks, first, first + before_end)));
    if (count > before_end) move(stage.target.at(joined(stage.blocks, 0, count - before_end)));
  };
  builder.copy(stage.target.at(stage.blocks[self]), stage.source.at(stage.blocks[self]));
  for (std::uint32_t distance = 1; distance < n; distance *= 2) {
    const std::uint32_t count = std::min(distance, n - distance);
    const std::uint32_t behind = (self + distance) % n;
    const std::int32_t to = stage.members[(self + n - distance) % n];
    const std::int32_t from = stage.members[behind];
    each_run(self, count, [&](const Chunk& run) { builder.send(to, run, stage.channel); });
    each_run(behind, count, [&](const Chunk& run) { builder.recv(from, run, stage.channel); });
  }
}

}  // namespace foldcast::schedule
