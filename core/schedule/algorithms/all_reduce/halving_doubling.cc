// Halving-doubling (Rabenseifner).
//
// p, the largest power of two up to n, members are the *core*; the other r = n - p are *extras*. The vector of N bytes
// is cut into p parts, and each core member *holds* a range of them, at first all. In the reduce-scatter's round
// k = 0, 1, ... log2 p - 1, core member c halves its range: it sends one half of its partial sums to core member c xor
// 2^k and receives that one's partial sums of the half it keeps. In the end each holds one finished part. The
// all-gather runs the rounds backwards and doubles the ranges.
//
// The largest messages go to the nearest member, so where members of one rack are neighbours, little crosses racks.
//
// Extras are folded in at the depth where that costs least. q, the largest power of two up to p/r, consecutive core
// members serve one extra. After log2 q rounds these q hold different ranges that together are the whole vector, so
// each takes just its range of the extra's input, N/q, and hands back just that range of the result. An extra's input
// travels while the first log2 q rounds run, and no core member serves more than one extra.
//
// Steps: 2 log2 p; with extras at most 2 more. Bytes sent per member: 2(p-1)/p N, and N/q more by those that serve an
// extra (q > p/2r: less than twice the even share). An extra sends N.
//
// Each partial sum is added by one member only, so the result has the same bits everywhere. Partial sums rotate through
// three scratch units, so that the next round's receive can be posted early; the extra's input has a fourth. The output
// gets nothing but results.
//
// R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.

#include "core/schedule/algorithms/halving.h"

#include "core/schedule/algorithms/all_reduce.h"

namespace foldcast::schedule {
namespace {

class AllGather {
 public:
  AllGather(Builder& builder, const Stage& stage, const Fold& fold, const Halving& halving)
      : builder_(builder), stage_(stage), fold_(fold), halving_(halving) {}

  void extra(std::uint32_t member) {
    const std::uint32_t begin = fold_.first_server_of(member);
    for (std::uint32_t core = begin; core < begin + fold_.servers; ++core) {
      builder_.recv(halving_.rank_of(core), result(fold_.held(core, fold_.depth)), stage_.channel);
    }
  }

  void core(std::uint32_t self) {
    for (std::uint32_t k = fold_.rounds; k-- > 0;) {
      const Range held = fold_.held(self, k);
      const bool upper = self >> k & 1;
      const std::int32_t partner = halving_.rank_of(self ^ (1u << k));
      builder_.send(partner, result(held.half(upper)), stage_.channel);
      builder_.recv(partner, result(held.half(!upper)), stage_.channel);
      if (k + 1 == fold_.depth) hand_back(self);
    }
    if (fold_.depth == 0) hand_back(self);
  }

 private:
  Chunk result(const Range& range) const { return halving_.chunk(stage_.target, range); }
  void hand_back(std::uint32_t self) {
    if (!fold_.serves(self)) return;
    builder_.send(halving_.extra_of(self), result(fold_.held(self, fold_.depth)), stage_.channel);
  }

  Builder& builder_;
  const Stage& stage_;
  const Fold& fold_;
  const Halving& halving_;
};

}  // namespace

void all_reduce_halving_doubling(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const Fold fold(n);
  Halving halving(builder, stage, fold, stage.target);
  AllGather all_gather(builder, stage, fold, halving);
  if (fold.is_extra(self)) {
    halving.give(self);
    all_gather.extra(self);
  } else {
    halving.reduce_scatter(fold.core_of(self));
    all_gather.core(fold.core_of(self));
  }
}

}  // namespace foldcast::schedule
