#include "core/schedule/contributions.h"

#include <algorithm>
#include <bit>

namespace foldcast::schedule {

Contributions::Contributions(std::uint32_t inputs, bool combines)
    : inputs_(inputs), words_(combines ? (inputs + 63) / 64 : 0) {
  info_.push_back({1, 0, kUndefined});
  ranks_in_.assign((std::size_t{inputs} + 1) * words_, 0);
  for (std::uint32_t number = 0; number < inputs; ++number) {
    info_.push_back({number, number, input(number)});
    if (combines) ranks_in_[input(number) * words_ + number / 64] = std::uint64_t{1} << (number % 64);
  }
}

std::uint64_t* Contributions::append(const Info& info) {
  info_.push_back(info);
  ranks_in_.resize(ranks_in_.size() + words_);
  return ranks_in_.data() + (ranks_in_.size() - words_);
}

Content Contributions::combine(Content a, Content b) {
  const auto next = static_cast<Content>(info_.size());
  const auto [entry, is_new] = made_.try_emplace(std::uint64_t{a} << 32 | b, next);
  if (!is_new) return entry->second;
  const bool ordered = in_order(a) && in_order(b) && info_[a].high + 1 == info_[b].low;
  const Info info = ordered ? Info{info_[a].low, info_[b].high, next} : Info{1, 0, next};
  std::uint64_t* ranks = append(info);
  for (std::size_t word = 0; word < words_; ++word) ranks[word] = ranks_in(a)[word] | ranks_in(b)[word];
  return next;
}

Content Contributions::rounded(Content content) {
  if (exact(content) != content) return content;
  const auto next = static_cast<Content>(info_.size());
  const auto [entry, is_new] = made_.try_emplace(std::uint64_t{content} << 32 | kUndefined, next);
  if (!is_new) return entry->second;
  std::uint64_t* ranks = append({info_[content].low, info_[content].high, content});
  std::copy_n(ranks_in(content), words_, ranks);
  return next;
}

std::uint32_t Contributions::common_rank(Content a, Content b) const {
  for (std::size_t word = 0; word < words_; ++word) {
    const std::uint64_t common = ranks_in(a)[word] & ranks_in(b)[word];
    if (common != 0) return static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(common)));
  }
  return kNobody;
}

std::uint32_t Contributions::missing_rank(Content content) const {
  for (std::uint32_t rank = 0; rank < inputs_; ++rank) {
    if ((ranks_in(content)[rank / 64] >> (rank % 64) & 1) == 0) return rank;
  }
  return kNobody;
}

}  // namespace foldcast::schedule
