// Scatter and all-gather (van de Geijn).
//
// The vector of N bytes is cut into n *parts*. They are scattered down a tree whose every subtree is an interval of the
// members (interval_tree.h): each member receives the parts of its subtree and so *holds* an interval of them that
// begins with its own. Then the parts travel around the circle of members, as in a ring; but no member receives what it
// holds already, so the root receives nothing.
//
// Steps: ceil(log2 n) + n - 1. Bytes sent by the root: about 2 N; by others at most N and what they pass on in the
// tree.
//
// M. Barnett, R. Littlefield, D. G. Payne, R. van de Geijn: Global combine on mesh architectures with wormhole routing.
// IPPS 1993.

#include "core/schedule/algorithms/broadcast.h"
#include "core/schedule/algorithms/interval_tree.h"
#include "core/schedule/algorithms/own_data.h"

namespace foldcast::schedule {
namespace {

void scatter(Builder& builder, const Stage& stage, const IntervalTree& tree, const Chunk& held) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (!tree.is_root()) {
    const Chunk own = part(stage.target, tree.own().first, n, tree.own().size());
    builder.recv(stage.members[tree.parent()], own, stage.channel);
  }
  for (const auto& child : tree.children()) {
    builder.send(stage.members[child.root], part(held, child.first, n, child.size()), stage.channel);
  }
}

void all_gather(Builder& builder, const Stage& stage, const IntervalTree& tree, const Chunk& held) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const std::uint32_t next = (self + 1) % n;
  const std::uint32_t previous = (self + n - 1) % n;
  const IntervalTree its_tree(next, n, static_cast<std::uint32_t>(stage.root));
  for (std::uint32_t distance = 0; distance < n - 1; ++distance) {
    const std::uint32_t sent = (self + n - distance) % n;
    const std::uint32_t received = (previous + n - distance) % n;
    if (!its_tree.own().has(sent)) builder.send(stage.members[next], part(held, sent, n), stage.channel);
    if (!tree.own().has(received)) {
      builder.recv(stage.members[previous], part(stage.target, received, n), stage.channel);
    }
  }
}

}  // namespace

void broadcast_scatter_allgather(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const IntervalTree tree(static_cast<std::uint32_t>(stage.self), n, static_cast<std::uint32_t>(stage.root));
  if (!tree.is_root()) {
    scatter(builder, stage, tree, stage.target);
    all_gather(builder, stage, tree, stage.target);
    return;
  }
  OwnData own(builder, stage.target, stage.source);
  scatter(builder, stage, tree, own.chunk());
  all_gather(builder, stage, tree, own.chunk());
  own.keep();
}

}  // namespace foldcast::schedule
