// Binomial tree.
//
// A tree whose every subtree is an interval of the members (interval_tree.h) hangs on the root. A member collects its
// children's blocks, next to its own, in a scratch unit and sends them all, one stretch of memory, to its parent.
//
// Steps: ceil(log2 n). Bytes sent per member: at most N/2 of the N bytes gathered; the root receives (n-1)/n N in
// ceil(log2 n) messages.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/gather.h"
#include "core/schedule/algorithms/interval_tree.h"

namespace foldcast::schedule {

void gather_knomial(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const IntervalTree tree(self, n, static_cast<std::uint32_t>(stage.root));
  const auto& children = tree.children();
  const auto blocks_of = [&](const IntervalTree::Subtree& tree_part) {
    return joined(stage.blocks, tree_part.first, tree_part.last);
  };
  Place collected = stage.target;
  if (!tree.is_root()) {
    collected = children.empty() ? stage.source : Place{Space::kScratch, builder.scratch_unit()};
  }
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    builder.recv(stage.members[child->root], collected.at(blocks_of(*child)), stage.channel);
  }
  builder.copy(collected.at(stage.blocks[self]), stage.source.at(stage.blocks[self]));
  if (!tree.is_root()) builder.send(stage.members[tree.parent()], collected.at(blocks_of(tree.own())), stage.channel);
}

}  // namespace foldcast::schedule
