// Binomial tree.
//
// A tree whose every subtree is an interval of the members (interval_tree.h) hangs on the root. A member receives its
// subtree's blocks, one stretch of memory, in a scratch unit, sends each child its share, the largest first, and keeps
// its own block.
//
// Steps: ceil(log2 n). The root sends (n-1)/n N of the N bytes scattered in ceil(log2 n) messages; others less than
// N/2.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/interval_tree.h"
#include "core/schedule/algorithms/scatter.h"

namespace foldcast::schedule {

void scatter_knomial(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const IntervalTree tree(self, n, static_cast<std::uint32_t>(stage.root));
  const auto& children = tree.children();
  const auto blocks_of = [&](const IntervalTree::Subtree& tree_part) {
    return joined(stage.blocks, tree_part.first, tree_part.last);
  };
  Place received = stage.source;
  if (!tree.is_root()) {
    received = children.empty() ? stage.target : Place{Space::kScratch, builder.scratch_unit()};
    builder.recv(stage.members[tree.parent()], received.at(blocks_of(tree.own())), stage.channel);
  }
  for (const auto& child : children) {
    builder.send(stage.members[child.root], received.at(blocks_of(child)), stage.channel);
  }
  builder.copy(stage.target.at(stage.blocks[self]), received.at(stage.blocks[self]));
}

}  // namespace foldcast::schedule
