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
// Where messages are rounded, an extra gets the last two operands instead of the result, whose rounding would make its
// bits others than those of the core members that send no result.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/pairs.h"
#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {

namespace {

class Doubling {
 public:
  Doubling(Builder& builder, const Stage& stage, const Pairs& pairs)
      : builder_(builder), stage_(stage), pairs_(pairs), scratch_(builder), sum_(stage.source) {}

  void extra(std::uint32_t member) {
    const std::int32_t core = stage_.members[member - 1];
    builder_.send(core, stage_.source, stage_.channel);
    if (!builder_.rounding()) {
      builder_.recv(core, stage_.target, stage_.channel);
      return;
    }
    const Chunk lower = scratch_.next(stage_.target);
    const Chunk higher = scratch_.next(stage_.target);
    builder_.recv(core, lower, stage_.channel);
    builder_.recv(core, higher, stage_.channel);
    builder_.reduce(stage_.target, lower, higher);
  }

  void core(std::uint32_t self) {
    if (pairs_.has_extra(self)) {
      const Chunk received = scratch_.next(stage_.target);
      builder_.recv(extra_of(self), received, stage_.channel);
      builder_.reduce(received, sum_, received);
      sum_ = received;
    } else if (builder_.rounding()) {
      // Both sides of an exchange must add the same two operands: the rounded ones.
      sum_ = scratch_.next(stage_.target);
      builder_.copy(sum_, stage_.source);
    }
    for (std::uint32_t bit = 1; bit < pairs_.p; bit *= 2) exchange(self, bit);
    if (pairs_.has_extra(self) && !builder_.rounding()) {
      builder_.send(extra_of(self), stage_.target, stage_.channel);
    }
  }

 private:
  void exchange(std::uint32_t self, std::uint32_t bit) {
    const std::int32_t partner = stage_.members[pairs_.member_of(self ^ bit)];
    const bool is_last = 2 * bit == pairs_.p;
    const Chunk received = scratch_.next(stage_.target);
    const Chunk wider = is_last ? stage_.target : received;
    builder_.send(partner, sum_, stage_.channel);
    builder_.recv(partner, received, stage_.channel);
    const Chunk& lower = self & bit ? received : sum_;
    const Chunk& higher = self & bit ? sum_ : received;
    builder_.reduce(wider, lower, higher);
    if (is_last && pairs_.has_extra(self) && builder_.rounding()) {
      builder_.send(extra_of(self), lower, stage_.channel);
      builder_.send(extra_of(self), higher, stage_.channel);
    }
    sum_ = wider;
  }
  std::int32_t extra_of(std::uint32_t core) const { return stage_.members[pairs_.member_of(core) + 1]; }

  Builder& builder_;
  const Stage& stage_;
  const Pairs& pairs_;
  ScratchRing<3> scratch_;
  Chunk sum_;
};

}  // namespace

void all_reduce_recursive_doubling(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const Pairs pairs(n);
  Doubling doubling(builder, stage, pairs);
  if (pairs.is_extra(self)) {
    doubling.extra(self);
  } else {
    doubling.core(pairs.core_of(self));
  }
}

}  // namespace foldcast::schedule
