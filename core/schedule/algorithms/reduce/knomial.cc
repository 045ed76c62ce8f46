// K-nomial tree.
//
// A tree whose every subtree is an interval of the members (interval_tree.h) hangs on the root. A member receives its
// children's partial sums, the smallest subtree's first, adds them to its own values on the side where they stand, and
// sends the sum to its parent. So operands stay in the members' order for any root.
//
// Steps: ceil(log_k n), each of up to k - 1 messages of N bytes, one after another at the receiver: radix 2 where bytes
// count, radix 4 where the messages of one step overlap. Bytes sent per member: N. The root receives N log2 n.
//
// Partial sums rotate through three scratch units; the root's output gets nothing but the result.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/interval_tree.h"
#include "core/schedule/algorithms/reduce.h"
#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {
namespace {

void reduce_along(Builder& builder, const Stage& stage, std::uint32_t radix) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const IntervalTree tree(self, n, static_cast<std::uint32_t>(stage.root), radix);
  ScratchRing<3> scratch(builder);
  Chunk sum = stage.source;
  for (std::size_t left = tree.children().size(); left-- > 0;) {
    const std::uint32_t child = tree.children()[left].root;
    const Chunk received = scratch.next(stage.source);
    const Chunk wider = tree.is_root() && left == 0 ? stage.target : received;
    builder.recv(stage.members[child], received, stage.channel);
    builder.reduce(wider, child < self ? received : sum, child < self ? sum : received);
    sum = wider;
  }
  if (!tree.is_root()) builder.send(stage.members[tree.parent()], sum, stage.channel);
}

}  // namespace

void reduce_knomial(Builder& builder, const Stage& stage) { reduce_along(builder, stage, 2); }
void reduce_knomial4(Builder& builder, const Stage& stage) { reduce_along(builder, stage, 4); }

}  // namespace foldcast::schedule
