#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "core/schedule/algorithms/algorithms.h"

namespace foldcast::schedule {

inline void PrintTo(const Algorithm& algorithm, std::ostream* out) {
  *out << to_string(algorithm.kind) << " " << algorithm.name;
}

/// All algorithms of all collectives.
inline std::vector<Algorithm> every_algorithm() {
  std::vector<Algorithm> all;
  for (std::size_t kind = 0; kind < kCollectiveCount; ++kind) {
    if (scheduled_as(static_cast<Collective>(kind)) != static_cast<Collective>(kind)) continue;
    const auto algorithms = algorithms_of(static_cast<Collective>(kind));
    all.insert(all.end(), algorithms.begin(), algorithms.end());
  }
  return all;
}

inline std::string name_of(const testing::TestParamInfo<Algorithm>& info) {
  return std::string(to_string(info.param.kind)) + "_" + std::string(info.param.name);
}

/// The roots that a collective can have among `ranks` ranks; 0 where it has none.
inline std::vector<std::int32_t> roots_of(Collective kind, std::uint32_t ranks) {
  std::vector<std::int32_t> roots{0};
  if (!has_root(kind) && kind != Collective::kSendRecv) return roots;
  for (std::int32_t root = 1; root < static_cast<std::int32_t>(ranks); ++root) roots.push_back(root);
  return roots;
}

/// Whether it can be built for so many ranks.
inline bool takes(Collective kind, std::uint32_t ranks) { return kind != Collective::kSendRecv || ranks == 2; }

/// Whether in place is another schedule, and not only another binding.
inline std::vector<bool> ways_in_place(Collective kind) {
  if (kind == Collective::kAllToAll) return {false, true};
  return {false};
}

}  // namespace foldcast::schedule
