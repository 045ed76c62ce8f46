#include "core/schedule/dependences.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace foldcast::schedule {

DependenceInference::DependenceInference(std::size_t steps)
    : words_(steps <= kExact ? (steps + 63) / 64 : 0), ancestors_(steps * words_), implied_by_(steps, kNone) {
  waits_.reserve(steps);
}

std::vector<std::uint32_t> DependenceInference::add(const Footprint& footprint) {
  const auto step = static_cast<std::uint32_t>(waits_.size());
  std::vector<std::uint32_t> conflicting;
  if (fence_ != kNone) conflicting.push_back(fence_);
  if (footprint.fence) {
    for (std::uint32_t earlier = 0; earlier < step; ++earlier) conflicting.push_back(earlier);
    memories_.clear();
    fence_ = step;
  }
  for (std::uint8_t i = 0; i < footprint.read_count; ++i) {
    const auto [begin, end] = stretches(footprint.reads[i]);
    for (auto at = begin; at != end; ++at) {
      if (at->second.writer != kNone && at->second.writer != step) conflicting.push_back(at->second.writer);
      if (at->second.readers.empty() || at->second.readers.back() != step) at->second.readers.push_back(step);
    }
  }
  for (std::uint8_t i = 0; i < footprint.write_count; ++i) {
    const auto [begin, end] = stretches(footprint.writes[i]);
    for (auto at = begin; at != end; ++at) {
      const Stretch& before = at->second;
      if (before.writer != kNone) conflicting.push_back(before.writer);
      for (const std::uint32_t reader : before.readers) {
        if (reader != step) conflicting.push_back(reader);
      }
    }
    begin->second = {step, {}};
    memories_[footprint.writes[i].memory].erase(std::next(begin), end);
  }
  return reduced(std::move(conflicting));
}

std::pair<DependenceInference::Memory::iterator, DependenceInference::Memory::iterator> DependenceInference::stretches(
    const Region& region) {
  Memory& memory = memories_[region.memory];
  if (memory.empty()) memory.try_emplace(Cut{0, 1});
  const auto cut_at = [&](const Cut& cut) {
    const auto behind = memory.upper_bound(cut);
    const auto at = std::prev(behind);
    if (at->first == cut) return at;
    return memory.emplace_hint(behind, cut, at->second);
  };
  const auto begin = cut_at(region.first);
  return {begin, region.last == Cut{1, 1} ? memory.end() : cut_at(region.last)};
}

std::vector<std::uint32_t> DependenceInference::reduced(std::vector<std::uint32_t> conflicting) {
  const auto step = static_cast<std::uint32_t>(waits_.size());
  std::sort(conflicting.begin(), conflicting.end(), std::greater<>());
  conflicting.erase(std::unique(conflicting.begin(), conflicting.end()), conflicting.end());
  std::vector<std::uint32_t> kept;
  std::uint64_t* mine = ancestors_.data() + step * words_;
  for (const std::uint32_t earlier : conflicting) {
    const bool known = words_ > 0 ? (mine[earlier / 64] >> (earlier % 64) & 1) != 0 : implied_by_[earlier] == step;
    if (!known) kept.push_back(earlier);
    if (words_ == 0) {
      for (const std::uint32_t before : waits_[earlier]) implied_by_[before] = step;
    } else if (!known) {
      const std::uint64_t* theirs = ancestors_.data() + earlier * words_;
      for (std::size_t word = 0; word <= earlier / 64; ++word) mine[word] |= theirs[word];
      mine[earlier / 64] |= std::uint64_t{1} << (earlier % 64);
    }
  }
  std::reverse(kept.begin(), kept.end());
  waits_.push_back(kept);
  return kept;
}

}  // namespace foldcast::schedule
