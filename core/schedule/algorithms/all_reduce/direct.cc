// Direct.
//
// The vector of N bytes is cut into n *parts*. Every member sends part d of its input to member d and itself sums, over
// all members, the part of its own number; then it sends that to everyone.
//
// Steps: 2, each of n - 1 messages of N/n. Bytes sent per member: 2(n-1)/n N, the least possible, in n - 1 messages at
// a time: for groups that are small or whose messages are cheap.
//
// A member adds what it receives from its neighbours outwards, so the operands stay in the members' order.

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/outward.h"

namespace foldcast::schedule {

void all_reduce_direct(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const auto peers = outward_from(self, n);
  const Chunk own = part(stage.target, self, n);
  OutwardSum sum(builder, own, part(stage.source, self, n));
  for (const std::uint32_t peer : peers) {
    builder.send(stage.members[peer], part(stage.source, peer, n), stage.channel);
    sum.add(stage.members[peer], stage.channel, peer < self, peer == peers.back());
  }
  for (const std::uint32_t peer : peers) {
    builder.send(stage.members[peer], own, stage.channel);
    builder.recv(stage.members[peer], part(stage.target, peer, n), stage.channel);
  }
}

}  // namespace foldcast::schedule
