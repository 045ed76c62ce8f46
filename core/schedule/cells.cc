#include "core/schedule/cells.h"

#include <fmt/format.h>

#include "core/schedule/algorithms/stage.h"

namespace foldcast::schedule {
namespace {

void sort_and_unite(std::vector<Cut>& cuts) {
  // Most cuts come many times, and equal numbers are told apart faster than equal fractions.
  const auto key = [](const Cut& cut) { return std::pair(cut.of, cut.part); };
  std::sort(cuts.begin(), cuts.end(), [&](const Cut& a, const Cut& b) { return key(a) < key(b); });
  const auto same = [&](const Cut& a, const Cut& b) { return key(a) == key(b); };
  cuts.erase(std::unique(cuts.begin(), cuts.end(), same), cuts.end());
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
}

/// The same places in every block.
std::vector<Cut> in_all_blocks(std::vector<Cut> cuts, std::uint64_t blocks) {
  for (Cut& cut : cuts) cut = {cut.part * blocks % cut.of, cut.of * blocks};
  sort_and_unite(cuts);
  std::vector<Cut> all;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    for (const Cut& cut : cuts) all.push_back({block * (cut.of / blocks) + cut.part, cut.of});
  }
  all.push_back({1, 1});
  return all;
}

}  // namespace

Cells::Cells(const Program& program, const Blocks& blocks) : blocks_(blocks.count) {
  for (std::uint64_t block = 0; block <= blocks.count; ++block) cuts_.push_back({block, blocks.count});
  const auto add = [&](const Chunk& chunk) {
    const Region region = region_of(chunk);
    cuts_.push_back(region.first);
    cuts_.push_back(region.last);
  };
  for (const Schedule& schedule : program.ranks) {
    for (const Step& step : schedule.steps) {
      if (step.kind == StepKind::kGroup && step.verb == Verb::kBarrier) continue;
      // Of the chunks that a step has, all are one part, but where blocks are crossed.
      add(step.kind == StepKind::kRecv ? step.target : step.a);
      if (blocks.crosses && (step.kind == StepKind::kCopy || step.kind == StepKind::kGroup)) add(step.target);
      for (std::uint32_t shard = 1; shard < step.owners; ++shard) add(part(step.a, shard, step.owners));
    }
  }
  sort_and_unite(cuts_);
  if (blocks.crosses) cuts_ = in_all_blocks(std::move(cuts_), blocks.count);
}

std::string Cells::name(std::uint32_t cell) const {
  const Cut& a = cuts_[cell];
  const Cut& b = cuts_[cell + 1];
  return fmt::format("from {}/{} to {}/{} of the fragment", a.part, a.of, b.part, b.of);
}

}  // namespace foldcast::schedule
