// Ring.
//
// The n members stand in a circle. Each block of the vector of N bytes travels once around: block j starts at member
// j + 1, every member on its way adds its own values, and member j has the finished block.
//
// Steps: n - 1, each a message of one block to the next member. Bytes sent per member: (n-1)/n N, the least possible.
//
// Partial sums are in one scratch unit, each at its block's place, so that all receives can be posted at once.
//
// P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69(2), 2009.

#include "core/schedule/algorithms/reduce_scatter.h"

namespace foldcast::schedule {

void reduce_scatter_ring(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  if (n == 1) {
    builder.copy(stage.target.at(stage.blocks[self]), stage.source.at(stage.blocks[self]));
    return;
  }
  const std::int32_t next = stage.members[(self + 1) % n];
  const std::int32_t previous = stage.members[(self + n - 1) % n];
  const Place partial{Space::kScratch, builder.scratch_unit()};
  builder.send(next, stage.source.at(stage.blocks[(self + n - 1) % n]), stage.channel);
  for (std::uint32_t distance = 2; distance <= n; ++distance) {
    const Part& block = stage.blocks[(self + n - distance) % n];
    const Chunk sum = (distance == n ? stage.target : partial).at(block);
    builder.recv(previous, partial.at(block), stage.channel);
    builder.reduce(sum, partial.at(block), stage.source.at(block));
    if (distance < n) builder.send(next, sum, stage.channel);
  }
}

}  // namespace foldcast::schedule
