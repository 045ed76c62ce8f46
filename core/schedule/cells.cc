#include "core/schedule/cells.h"

#include <fmt/format.h>

namespace foldcast::schedule {

Cells::Cells(const Program& program) {
  cuts_ = {{0, 1}, {1, 1}};
  auto add = [&](const Region& region) {
    cuts_.push_back(region.first);
    cuts_.push_back(region.last);
  };
  for (const Schedule& schedule : program.ranks) {
    for (const Step& step : schedule.steps) {
      const Footprint footprint = footprint_of(step);
      for (std::uint8_t i = 0; i < footprint.read_count; ++i) add(footprint.reads[i]);
      for (std::uint8_t i = 0; i < footprint.write_count; ++i) add(footprint.writes[i]);
      for (std::uint64_t shard = 1; shard < step.owners; ++shard) cuts_.push_back({shard, step.owners});
    }
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

std::string Cells::name(std::uint32_t cell) const {
  const Cut& a = cuts_[cell];
  const Cut& b = cuts_[cell + 1];
  return fmt::format("from {}/{} to {}/{} of the fragment", a.part, a.of, b.part, b.of);
}

}  // namespace foldcast::schedule
