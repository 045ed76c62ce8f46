#pragma once

#include <bit>
#include <cstdint>

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

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
  /// The first of those that serve an extra; they are `servers` core members.
  std::uint32_t first_server_of(std::uint32_t extra) const { return extra / (servers + 1) * servers; }
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

/// The halving of all_reduce and reduce, as halving_doubling.cc describes it.
class Halving {
 public:
  /// `result` is where a core member's finished part goes; it and the stage must outlive this.
  Halving(Builder& builder, const Stage& stage, const Fold& fold, const Chunk& result)
      : builder_(builder), stage_(stage), fold_(fold), result_(result) {}

  /// Of an extra: hands its input to those that serve it.
  void give(std::uint32_t extra);
  /// Of a core member: leaves the sum of all in part held(core, rounds) of `result`.
  void reduce_scatter(std::uint32_t core);

  Chunk chunk(const Chunk& whole, const Range& range) const { return part(whole, range.first, fold_.p, range.span); }
  std::int32_t rank_of(std::uint32_t core) const { return stage_.members[fold_.member_of(core)]; }
  std::int32_t extra_of(std::uint32_t core) const { return stage_.members[fold_.extra_served_by(core)]; }

 private:
  /// `range` of the buffer that `sum` lies in.
  Chunk chunk_in(const Chunk& sum, const Range& range) const;

  Builder& builder_;
  const Stage& stage_;
  const Fold& fold_;
  const Chunk& result_;
};

}  // namespace foldcast::schedule
