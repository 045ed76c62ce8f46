#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/footprint.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// All places where any step of a program cuts a fragment, ascending: between two of them lies a *cell*, which every
/// step touches wholly or not at all.
class Cells {
 public:
  /// The chunks of `program` must be valid.
  explicit Cells(const Program& program);

  struct Range {
    std::uint32_t first = 0, last = 0;
    std::uint32_t size() const { return last - first; }
  };
  std::uint32_t count() const { return static_cast<std::uint32_t>(cuts_.size() - 1); }
  /// The cells of a region that a step of the program (or a shard of one) has.
  Range of(const Region& region) const { return {at(region.first), at(region.last)}; }
  /// "from 1/4 to 1/2 of the fragment".
  std::string name(std::uint32_t cell) const;

 private:
  std::uint32_t at(const Cut& cut) const {
    return static_cast<std::uint32_t>(std::lower_bound(cuts_.begin(), cuts_.end(), cut) - cuts_.begin());
  }

  std::vector<Cut> cuts_;
};

}  // namespace foldcast::schedule
