// Reduce-scatter and gather (Rabenseifner).
//
// The reduce-scatter of halving_doubling.cc, whose words these are, leaves each core member one finished part of the
// vector of N bytes. The gather runs its rounds backwards: of each two members that split a range, the one on the
// root's side receives the other's half. Where the root is an extra, those that serve it take the root's side, and each
// hands over the range that it has after the gather's last round but log2 q.
//
// Steps: 2 log2 p; with extras at most 2 more. Bytes sent per member: at most 2(p-1)/p N, and those of extras.
//
// Operands stay in the members' order. Partial sums and finished parts are in scratch, but at the root, whose output
// gets nothing but results.
//
// R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.

#include "core/schedule/algorithms/halving.h"
#include "core/schedule/algorithms/reduce.h"

namespace foldcast::schedule {
namespace {

class Gather {
 public:
  Gather(Builder& builder, const Stage& stage, const Fold& fold, const Halving& halving)
      : builder_(builder),
        stage_(stage),
        fold_(fold),
        halving_(halving),
        root_(static_cast<std::uint32_t>(stage.root)),
        root_is_extra_(fold.is_extra(root_)) {}

  void extra(std::uint32_t self) {
    if (self != root_) return;
    const std::uint32_t begin = fold_.first_server_of(self);
    for (std::uint32_t core = begin; core < begin + fold_.servers; ++core) {
      const Range range = fold_.held(core, fold_.depth);
      builder_.recv(halving_.rank_of(core), halving_.chunk(stage_.target, range), stage_.channel);
    }
  }

  void core(std::uint32_t self, const Chunk& result) {
    const std::uint32_t towards = root_is_extra_ ? fold_.first_server_of(root_) : fold_.core_of(root_);
    const std::uint32_t last_round = root_is_extra_ ? fold_.depth : 0;
    for (std::uint32_t k = fold_.rounds; k-- > last_round;) {
      const std::uint32_t partner = self ^ (1u << k);
      if ((self >> k & 1) != (towards >> k & 1)) {
        const Range mine = fold_.held(self, k + 1);
        builder_.send(halving_.rank_of(partner), halving_.chunk(result, mine), stage_.channel);
        return;
      }
      const Range theirs = fold_.held(partner, k + 1);
      builder_.recv(halving_.rank_of(partner), halving_.chunk(result, theirs), stage_.channel);
    }
    if (!root_is_extra_) return;
    const Range range = fold_.held(self, fold_.depth);
    builder_.send(stage_.members[root_], halving_.chunk(result, range), stage_.channel);
  }

 private:
  Builder& builder_;
  const Stage& stage_;
  const Fold& fold_;
  const Halving& halving_;
  std::uint32_t root_;
  bool root_is_extra_;
};

}  // namespace

void reduce_scatter_gather(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const Fold fold(n);
  const bool needs_scratch = self != static_cast<std::uint32_t>(stage.root) && !fold.is_extra(self);
  const Chunk result = needs_scratch ? in_scratch(stage.source, builder.scratch_unit()) : stage.target;
  Halving halving(builder, stage, fold, result);
  Gather gather(builder, stage, fold, halving);
  if (fold.is_extra(self)) {
    halving.give(self);
    gather.extra(self);
  } else {
    halving.reduce_scatter(fold.core_of(self));
    gather.core(fold.core_of(self), result);
  }
}

}  // namespace foldcast::schedule
