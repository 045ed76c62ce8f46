// Recursive doubling.
//
// p, the largest power of two up to n, members are the *core*; the other n - p are *extras*. Each extra stands directly
// behind a core member of its own, first hands it its whole vector (fold) and in the end gets the result back (unfold).
// Between, in round k = 0, 1, ... log2 p - 1, core member c exchanges its whole partial sum with core member c xor 2^k.
// Both then add the lower one's operand and the higher one's, in that order, so all core members evaluate the very same
// expression, with operands in the order of the members, and end with the same bits.
//
// Steps: log2 p, and 2 more when there are extras. Bytes sent per member: N log2 p, N more by those with an extra.
//
// Partial sums rotate through three scratch units: one is being sent, one received into, and one freed by the round
// before, so that the next round's receive can be posted early. The output gets nothing but the result.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include <bit>

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {

void all_reduce_recursive_doubling(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const std::uint32_t p = std::bit_floor(n);
  const std::uint32_t extras = n - p;
  // Members 2c and 2c + 1 for c < extras are a core member and its extra; behind them all are core.
  const bool paired = self < 2 * extras;
  if (paired && self % 2 == 1) {
    builder.send(stage.members[self - 1], stage.source, stage.channel);
    builder.recv(stage.members[self - 1], stage.target, stage.channel);
    return;
  }
  const std::uint32_t core = paired ? self / 2 : self - extras;
  auto member_of = [&](std::uint32_t c) { return stage.members[c < extras ? 2 * c : c + extras]; };

  ScratchRing<3> scratch(builder);
  Chunk sum = stage.source;
  if (paired) {
    const Chunk received = scratch.next(stage.target);
    builder.recv(stage.members[self + 1], received, stage.channel);
    builder.reduce(received, sum, received);
    sum = received;
  }
  for (std::uint32_t bit = 1; bit < p; bit *= 2) {
    const std::int32_t partner = member_of(core ^ bit);
    const Chunk received = scratch.next(stage.target);
    const Chunk wider = 2 * bit == p ? stage.target : received;
    builder.send(partner, sum, stage.channel);
    builder.recv(partner, received, stage.channel);
    if (core & bit) {
      builder.reduce(wider, received, sum);
    } else {
      builder.reduce(wider, sum, received);
    }
    sum = wider;
  }
  if (paired) builder.send(stage.members[self + 1], stage.target, stage.channel);
}

}  // namespace foldcast::schedule
