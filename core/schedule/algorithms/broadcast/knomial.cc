// K-nomial tree.
//
// A tree whose every subtree is an interval of the members (interval_tree.h) hangs on the root. A member sends what it
// has received from its parent to its children, the one with the largest subtree first.
//
// Steps: ceil(log_k n), each of up to k - 1 messages of N bytes, one after another at the sender: radix 2 where bytes
// count, radix 4 where the messages of one step overlap. The root sends most: N log2 n bytes.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/broadcast.h"
#include "core/schedule/algorithms/interval_tree.h"
#include "core/schedule/algorithms/own_data.h"

namespace foldcast::schedule {
namespace {

void broadcast_along(Builder& builder, const Stage& stage, std::uint32_t radix) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const IntervalTree tree(static_cast<std::uint32_t>(stage.self), n, static_cast<std::uint32_t>(stage.root), radix);
  const auto pass_on = [&](const Chunk& data) {
    for (const auto& child : tree.children()) builder.send(stage.members[child.root], data, stage.channel);
  };
  if (tree.is_root()) {
    OwnData own(builder, stage.target, stage.source);
    pass_on(own.chunk());
    own.keep();
  } else {
    builder.recv(stage.members[tree.parent()], stage.target, stage.channel);
    pass_on(stage.target);
  }
}

}  // namespace

void broadcast_knomial(Builder& builder, const Stage& stage) { broadcast_along(builder, stage, 2); }
void broadcast_knomial4(Builder& builder, const Stage& stage) { broadcast_along(builder, stage, 4); }

}  // namespace foldcast::schedule
