// Recursive halving.
//
// p, the largest power of two up to n, members are the *core*; each of the others, the *extras*, stands behind a core
// member of its own (pairs.h), which first takes over its whole vector of N bytes and in the end hands it its block. In
// between, core members hold a range of the core's blocks, at first all. In each round the two halves of a range are
// exchanged between members that are half the range's size apart: each keeps the half that its own block is in.
//
// Steps: log2 p, and 2 more when there are extras. Bytes sent per core member: about (p-1)/p N, and a block more by
// those with an extra; an extra sends N.
//
// Members that are far apart are added first, so operands do not stay in the members' order. Partial sums rotate
// through three scratch units.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/pairs.h"
#include "core/schedule/algorithms/reduce_scatter.h"
#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {
namespace {

class CoreMember {
 public:
  CoreMember(Builder& builder, const BlockStage& stage, const Pairs& pairs)
      : builder_(builder),
        stage_(stage),
        pairs_(pairs),
        self_(pairs.core_of(static_cast<std::uint32_t>(stage.self))),
        scratch_(builder),
        sum_(stage.source) {}

  void run() {
    if (pairs_.has_extra(self_)) {
      const Part whole = range(0, pairs_.p);
      const Chunk received = next(whole);
      builder_.recv(extra(), received, stage_.channel);
      builder_.reduce(received, sum_.at(whole), received);
      sum_ = place_of(received);
    }
    for (std::uint32_t half = pairs_.p / 2; half > 0; half /= 2) exchange(half);
    if (pairs_.has_extra(self_)) {
      builder_.send(extra(), sum_.at(stage_.blocks[pairs_.member_of(self_) + 1]), stage_.channel);
    }
  }

 private:
  void exchange(std::uint32_t half) {
    const std::uint32_t kept = self_ / half * half;
    const std::uint32_t given = kept ^ half;
    const std::uint32_t partner = self_ ^ half;
    const Chunk received = next(range(kept, half));
    builder_.send(stage_.members[pairs_.member_of(partner)], sum_.at(range(given, half)), stage_.channel);
    builder_.recv(stage_.members[pairs_.member_of(partner)], received, stage_.channel);
    const auto add = [&](const Part& blocks, const Place& target) {
      const Chunk theirs = place_of(received).at(blocks);
      const Chunk own = sum_.at(blocks);
      builder_.reduce(target.at(blocks), partner < self_ ? theirs : own, partner < self_ ? own : theirs);
    };
    if (half > 1) {
      add(range(kept, half), place_of(received));
    } else {
      const std::uint32_t member = pairs_.member_of(self_);
      add(stage_.blocks[member], stage_.target);
      if (pairs_.has_extra(self_)) add(stage_.blocks[member + 1], place_of(received));
    }
    sum_ = place_of(received);
  }

  /// The blocks of `count` core members, and of their extras.
  Part range(std::uint32_t first, std::uint32_t count) const {
    return joined(stage_.blocks, pairs_.member_of(first), pairs_.member_of(first + count));
  }
  Chunk next(const Part& blocks) { return scratch_.next(stage_.source.at(blocks)); }
  static Place place_of(const Chunk& scratch) { return {Space::kScratch, scratch.index / scratch.of}; }
  std::int32_t extra() const { return stage_.members[pairs_.member_of(self_) + 1]; }

  Builder& builder_;
  const BlockStage& stage_;
  const Pairs& pairs_;
  std::uint32_t self_;
  ScratchRing<3> scratch_;
  Place sum_;  ///< where the partial sums are
};

}  // namespace

void reduce_scatter_halving(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const Chunk result = stage.target.at(stage.blocks[self]);
  if (n == 1) {
    builder.copy(result, stage.source.at(stage.blocks[self]));
    return;
  }
  const Pairs pairs(n);
  if (pairs.is_extra(self)) {
    builder.send(stage.members[self - 1], stage.source.at(joined(stage.blocks, 0, n)), stage.channel);
    builder.recv(stage.members[self - 1], result, stage.channel);
    return;
  }
  CoreMember(builder, stage, pairs).run();
}

}  // namespace foldcast::schedule
