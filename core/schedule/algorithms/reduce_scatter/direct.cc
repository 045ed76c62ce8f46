// Direct.
//
// Every member sends block d of its vector of N bytes to member d and itself sums its own block over all members, from
// its neighbours outwards, so that operands stay in the members' order.
//
// Steps: 1, of n - 1 messages of one block. Bytes sent per member: (n-1)/n N, the least possible.

#include "core/schedule/algorithms/outward.h"
#include "core/schedule/algorithms/reduce_scatter.h"

namespace foldcast::schedule {

void reduce_scatter_direct(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const Part& own = stage.blocks[self];
  if (n == 1) {
    builder.copy(stage.target.at(own), stage.source.at(own));
    return;
  }
  const auto peers = outward_from(self, n);
  OutwardSum sum(builder, stage.target.at(own), stage.source.at(own));
  for (const std::uint32_t peer : peers) {
    builder.send(stage.members[peer], stage.source.at(stage.blocks[peer]), stage.channel);
    sum.add(stage.members[peer], stage.channel, peer < self, peer == peers.back());
  }
}

}  // namespace foldcast::schedule
