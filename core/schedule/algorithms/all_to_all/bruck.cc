// Bruck.
//
// A block that has to go j members further around the circle (its *way*) travels by the powers of two that make up j.
// In round k = 0, 1, ... each member packs all blocks whose way has bit k, at most n/2, and sends them as one message
// to the member 2^k behind it. A received block takes the place of the one with the same way.
//
// Steps: ceil(log2 n), each of one message of at most N/2 bytes. Bytes sent per member: about N/2 log2 n. For small
// blocks.
//
// Each round has a scratch unit of its own: what is sent is packed into its lower half, what is received stays in its
// upper half until it is packed again or copied to the output.
//
// J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all communications in
// multiport message-passing systems. IEEE TPDS 8(11), 1997.

#include <vector>

#include "core/schedule/algorithms/all_to_all.h"

namespace foldcast::schedule {

void all_to_all_bruck(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  std::vector<Chunk> at(n);  // where the block is that has to go that far
  for (std::uint32_t way = 0; way < n; ++way) at[way] = stage.source.at(stage.blocks[(self + way) % n]);
  for (std::uint32_t distance = 1; distance < n; distance *= 2) {
    const Place unit{Space::kScratch, builder.scratch_unit()};
    std::uint32_t packed = 0;
    for (std::uint32_t way = distance; way < n; ++way) {
      if ((way & distance) == 0) continue;
      builder.copy(unit.at(stage.blocks[packed]), at[way]);
      at[way] = unit.at(stage.blocks[n / 2 + packed]);
      ++packed;
    }
    const std::int32_t to = stage.members[(self + distance) % n];
    const std::int32_t from = stage.members[(self + n - distance) % n];
    builder.send(to, unit.at(joined(stage.blocks, 0, packed)), stage.channel);
    builder.recv(from, unit.at(joined(stage.blocks, n / 2, n / 2 + packed)), stage.channel);
  }
  for (std::uint32_t way = 0; way < n; ++way) {
    builder.copy(stage.target.at(stage.blocks[(self + n - way) % n]), at[way]);
  }
}

}  // namespace foldcast::schedule
