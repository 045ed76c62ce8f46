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

#include <bit>

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {
namespace {

/// Parts [first, first + span) of p.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t span = 0;
  Range half(bool upper) const { return {first + (upper ? span / 2 : 0), span / 2}; }
};

/// Who is core, who is an extra, and who serves whom. In the members' order each extra stands behind those that serve
/// it.
struct Fold {
  explicit Fold(std::uint32_t n) : p(std::bit_floor(n)), extras(n - p) {
    rounds = static_cast<std::uint32_t>(std::countr_zero(p));
    servers = extras == 0 ? 0 : std::bit_floor(p / extras);
    depth = extras == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(servers));
  }

  bool is_extra(std::uint32_t member) const {
    return member < extras * (servers + 1) && member % (servers + 1) == servers;
  }
  bool serves(std::uint32_t core) const { return core < extras * servers; }
  std::uint32_t core_of(std::uint32_t member) const {
    return member < extras * (servers + 1) ? member - member / (servers + 1) : member - extras;
  }
  std::uint32_t member_of(std::uint32_t core) const { return serves(core) ? core + core / servers : core + extras; }
  std::uint32_t extra_served_by(std::uint32_t core) const { return core / servers * (servers + 1) + servers; }

  /// What a core member holds after `round` rounds of halving.
  Range held(std::uint32_t core, std::uint32_t round) const {
    Range range{0, p};
    for (std::uint32_t k = 0; k < round; ++k) range = range.half(core >> k & 1);
    return range;
  }

  std::uint32_t p, extras, rounds = 0;
  std::uint32_t servers = 0;  ///< core members that serve one extra (q)
  std::uint32_t depth = 0;    ///< rounds of halving before an extra's input is added
};

class Appender {
 public:
  Appender(Builder& builder, const Stage& stage, const Fold& fold) : builder_(builder), stage_(stage), fold_(fold) {}

  void extra(std::uint32_t member) {
    const std::uint32_t servers_begin = member / (fold_.servers + 1) * fold_.servers;
    for (std::uint32_t core = servers_begin; core < servers_begin + fold_.servers; ++core) {
      builder_.send(rank_of(core), chunk(stage_.source, fold_.held(core, fold_.depth)), stage_.channel);
    }
    for (std::uint32_t core = servers_begin; core < servers_begin + fold_.servers; ++core) {
      builder_.recv(rank_of(core), chunk(stage_.target, fold_.held(core, fold_.depth)), stage_.channel);
    }
  }

  void core(std::uint32_t self) {
    reduce_scatter(self);
    all_gather(self);
  }

 private:
  Chunk chunk(const Chunk& whole, const Range& range) const { return part(whole, range.first, fold_.p, range.span); }
  std::int32_t rank_of(std::uint32_t core) const { return stage_.members[fold_.member_of(core)]; }
  std::int32_t extra_of(std::uint32_t core) const { return stage_.members[fold_.extra_served_by(core)]; }

  void reduce_scatter(std::uint32_t self) {
    const bool serves = fold_.serves(self);
    std::uint32_t sums_left = fold_.rounds + (serves ? 1 : 0);
    Chunk from_extra;
    if (serves) {
      const Range range = fold_.held(self, fold_.depth);
      from_extra = in_scratch(chunk(stage_.target, range), builder_.scratch_unit());
      builder_.recv(extra_of(self), from_extra, stage_.channel);
    }
    ScratchRing<3> scratch(builder_);
    Chunk sum = stage_.source;  // the buffer the partial sums are in; which part of it is said by `chunk_in`
    for (std::uint32_t k = 0; k <= fold_.rounds; ++k) {
      const Range held = fold_.held(self, k);
      if (serves && k == fold_.depth) {
        const Chunk wider = --sums_left == 0 ? chunk(stage_.target, held) : from_extra;
        builder_.reduce(wider, chunk_in(sum, held), from_extra);
        sum = wider;
      }
      if (k == fold_.rounds) break;
      const bool upper = self >> k & 1;
      const Range kept = held.half(upper);
      const std::int32_t partner = rank_of(self ^ (1u << k));
      const Chunk received = scratch.next(chunk(stage_.target, kept));
      const Chunk wider = --sums_left == 0 ? chunk(stage_.target, kept) : received;
      builder_.send(partner, chunk_in(sum, held.half(!upper)), stage_.channel);
      builder_.recv(partner, received, stage_.channel);
      const Chunk own = chunk_in(sum, kept);
      builder_.reduce(wider, upper ? received : own, upper ? own : received);
      sum = wider;
    }
  }

  void all_gather(std::uint32_t self) {
    for (std::uint32_t k = fold_.rounds; k-- > 0;) {
      const Range held = fold_.held(self, k);
      const bool upper = self >> k & 1;
      const std::int32_t partner = rank_of(self ^ (1u << k));
      builder_.send(partner, chunk(stage_.target, held.half(upper)), stage_.channel);
      builder_.recv(partner, chunk(stage_.target, held.half(!upper)), stage_.channel);
      if (k + 1 == fold_.depth) hand_back(self);
    }
    if (fold_.depth == 0) hand_back(self);
  }

  void hand_back(std::uint32_t self) {
    if (!fold_.serves(self)) return;
    builder_.send(extra_of(self), chunk(stage_.target, fold_.held(self, fold_.depth)), stage_.channel);
  }

  /// `range` of the buffer that `sum` lies in.
  Chunk chunk_in(const Chunk& sum, const Range& range) const {
    if (sum.space != Space::kScratch) return chunk(stage_.source, range);
    return in_scratch(chunk(stage_.target, range), sum.index / sum.of);
  }

  Builder& builder_;
  const Stage& stage_;
  const Fold& fold_;
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
  Appender appender(builder, stage, fold);
  if (fold.is_extra(self)) {
    appender.extra(self);
  } else {
    appender.core(fold.core_of(self));
  }
}

}  // namespace foldcast::schedule
