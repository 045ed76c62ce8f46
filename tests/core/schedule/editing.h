#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// A schedule taken apart, to be damaged and put together again.
struct Edited {
  std::vector<Step> steps;
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;  ///< (earlier, later)
  std::uint32_t scratch_units = 0;
  MemoryRules memory;

  explicit Edited(const Schedule& schedule);
  Schedule schedule() const;

  void drop(std::uint32_t step);       ///< what waited for it waits for what it waited for
  void duplicate(std::uint32_t step);  ///< a second one directly behind it, which waits for it
  /// Sends and receives numbered anew in program order.
  void renumber();
};

}  // namespace foldcast::schedule
