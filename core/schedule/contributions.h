#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace foldcast::schedule {

/// What one element of a buffer holds, as a number: nothing, one rank's input, or an expression over those. Equal
/// numbers mean the very same expression, so equal bits whatever the operation rounds.
using Content = std::uint32_t;

/// Makes and compares the expressions of one program.
class Contributions {
 public:
  static constexpr Content kUndefined = 0;
  static constexpr std::uint32_t kNobody = ~0u;

  explicit Contributions(std::uint32_t ranks);

  Content input_of(std::uint32_t rank) const { return rank + 1; }
  /// a op b; both must be defined.
  Content combine(Content a, Content b);
  /// A rank whose input is in both, or kNobody.
  std::uint32_t common_rank(Content a, Content b) const;
  /// A rank whose input is not in `content`, or kNobody.
  std::uint32_t missing_rank(Content content) const;

 private:
  const std::uint64_t* ranks_in(Content content) const { return &ranks_in_[content * words_]; }

  std::uint32_t ranks_;
  std::size_t words_;
  std::vector<std::uint64_t> ranks_in_;  ///< a bit set for each content
  std::unordered_map<std::uint64_t, Content> combined_;
};

}  // namespace foldcast::schedule
