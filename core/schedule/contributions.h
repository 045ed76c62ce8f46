#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace foldcast::schedule {

/// What one element of a buffer holds, as a number: nothing, an input, or an expression over inputs. Equal numbers mean
/// the very same expression, so equal bits whatever the operation rounds.
using Content = std::uint32_t;

/// Makes and compares the expressions of one program.
class Contributions {
 public:
  static constexpr Content kUndefined = 0;
  static constexpr std::uint32_t kNobody = ~0u;

  /// Inputs 0 to `inputs` - 1; where they are combined, input i is rank i's contribution.
  Contributions(std::uint32_t inputs, bool combines);

  static Content input(std::uint32_t number) { return number + 1; }
  /// a op b; both must be defined.
  Content combine(Content a, Content b);
  /// What arrives when `content` travels in a format of less precision. Rounding twice is rounding once.
  Content rounded(Content content);
  /// What was rounded; others are returned as they are.
  Content exact(Content content) const { return info_[content].exact; }

  /// A rank whose input is in both, or kNobody.
  std::uint32_t common_rank(Content a, Content b) const;
  /// A rank whose input is not in `content`, or kNobody.
  std::uint32_t missing_rank(Content content) const;
  /// The ranks' inputs are combined in their order, in some bracketing.
  bool in_order(Content content) const { return info_[content].low <= info_[content].high; }

 private:
  struct Info {
    std::uint32_t low, high;  ///< of contents in order: the interval of ranks they are of; of others low > high
    Content exact;
  };
  const std::uint64_t* ranks_in(Content content) const { return ranks_in_.data() + content * words_; }
  /// Where the set of ranks of a new content starts.
  std::uint64_t* append(const Info& info);

  std::uint32_t inputs_;
  std::size_t words_;
  std::vector<Info> info_;
  std::vector<std::uint64_t> ranks_in_;  ///< a bit set for each content, where inputs are combined
  std::unordered_map<std::uint64_t, Content> made_;
};

}  // namespace foldcast::schedule
