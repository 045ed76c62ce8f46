#include "core/schedule/contributions.h"

#include <bit>

namespace foldcast::schedule {

Contributions::Contributions(std::uint32_t ranks) : ranks_(ranks), words_((ranks + 63) / 64) {
  ranks_in_.assign((std::size_t{ranks} + 1) * words_, 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ranks_in_[input_of(rank) * words_ + rank / 64] = std::uint64_t{1} << (rank % 64);
  }
}

Content Contributions::combine(Content a, Content b) {
  const auto next = static_cast<Content>(ranks_in_.size() / words_);
  const auto [entry, is_new] = combined_.try_emplace(std::uint64_t{a} << 32 | b, next);
  if (!is_new) return entry->second;
  ranks_in_.resize(ranks_in_.size() + words_);
  for (std::size_t word = 0; word < words_; ++word) {
    ranks_in_[next * words_ + word] = ranks_in(a)[word] | ranks_in(b)[word];
  }
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
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if ((ranks_in(content)[rank / 64] >> (rank % 64) & 1) == 0) return rank;
  }
  return kNobody;
}

}  // namespace foldcast::schedule
