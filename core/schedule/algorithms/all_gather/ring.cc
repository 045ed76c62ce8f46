// Ring.
//
// The n members stand in a circle, and each block travels once around: a member passes on what it received a step ago.
//
// Steps: n - 1, each a message of one block to the next member. Bytes sent per member: (n-1)/n N of the N bytes
// gathered, the least possible.
//
// P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69(2), 2009.

#include "core/schedule/algorithms/all_gather.h"
#include "core/schedule/algorithms/own_data.h"

namespace foldcast::schedule {

void all_gather_ring(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const std::int32_t next = stage.members[(self + 1) % n];
  const std::int32_t previous = stage.members[(self + n - 1) % n];
  OwnData own(builder, stage.target.at(stage.blocks[self]), stage.source.at(stage.blocks[self]));
  if (n > 1) builder.send(next, own.chunk(), stage.channel);
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const Chunk block = stage.target.at(stage.blocks[(self + n - distance) % n]);
    builder.recv(previous, block, stage.channel);
    if (distance < n - 1) builder.send(next, block, stage.channel);
  }
  own.keep();
}

}  // namespace foldcast::schedule
