#include "core/schedule/algorithms/halving.h"

#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {

void Halving::give(std::uint32_t extra) {
  const std::uint32_t begin = fold_.first_server_of(extra);
  for (std::uint32_t core = begin; core < begin + fold_.servers; ++core) {
    builder_.send(rank_of(core), chunk(stage_.source, fold_.held(core, fold_.depth)), stage_.channel);
  }
}

void Halving::reduce_scatter(std::uint32_t self) {
  const bool serves = fold_.serves(self);
  std::uint32_t sums_left = fold_.rounds + (serves ? 1 : 0);
  Chunk from_extra;
  if (serves) {
    const Range range = fold_.held(self, fold_.depth);
    from_extra = in_scratch(chunk(stage_.source, range), builder_.scratch_unit());
    builder_.recv(extra_of(self), from_extra, stage_.channel);
  }
  ScratchRing<3> scratch(builder_);
  Chunk sum = stage_.source;  // the buffer the partial sums are in; which part of it is said by `chunk_in`
  for (std::uint32_t k = 0; k <= fold_.rounds; ++k) {
    const Range held = fold_.held(self, k);
    if (serves && k == fold_.depth) {
      const Chunk wider = --sums_left == 0 ? chunk(result_, held) : from_extra;
      builder_.reduce(wider, chunk_in(sum, held), from_extra);
      sum = wider;
    }
    if (k == fold_.rounds) break;
    const bool upper = self >> k & 1;
    const Range kept = held.half(upper);
    const std::int32_t partner = rank_of(self ^ (1u << k));
    const Chunk received = scratch.next(chunk(stage_.source, kept));
    const Chunk wider = --sums_left == 0 ? chunk(result_, kept) : received;
    builder_.send(partner, chunk_in(sum, held.half(!upper)), stage_.channel);
    builder_.recv(partner, received, stage_.channel);
    const Chunk own = chunk_in(sum, kept);
    builder_.reduce(wider, upper ? received : own, upper ? own : received);
    sum = wider;
  }
}

Chunk Halving::chunk_in(const Chunk& sum, const Range& range) const {
  const Chunk within = chunk(stage_.source, range);
  if (sum == stage_.source || sum.space != Space::kScratch) return within;
  return in_scratch(within, sum.index / sum.of);
}

}  // namespace foldcast::schedule
