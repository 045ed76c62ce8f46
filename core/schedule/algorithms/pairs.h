#pragma once

#include <bit>
#include <cstdint>

namespace foldcast::schedule {

/// How algorithms for powers of two serve any number of members: p, the largest power of two up to n, are the *core*;
/// each of the other n - p, the *extras*, stands directly behind a core member of its own, which acts for both.
struct Pairs {
  explicit Pairs(std::uint32_t n) : members(n), p(std::bit_floor(n)), extras(n - p) {}

  bool is_extra(std::uint32_t member) const { return member < 2 * extras && member % 2 == 1; }
  bool has_extra(std::uint32_t core) const { return core < extras; }
  std::uint32_t core_of(std::uint32_t member) const { return member < 2 * extras ? member / 2 : member - extras; }
  /// Also of p: the end of the members.
  std::uint32_t member_of(std::uint32_t core) const { return core < extras ? 2 * core : core + extras; }

  std::uint32_t members, p, extras;
};

}  // namespace foldcast::schedule
