#include "tools/foldcast/perf_statistics.h"

#include <algorithm>
#include <cstddef>

namespace foldcast::tools {

Timing summarize(std::vector<double> times_us) {
  if (times_us.empty()) return {};
  std::sort(times_us.begin(), times_us.end());
  std::size_t count = times_us.size();
  Timing timing;
  timing.min = times_us.front();
  timing.max = times_us.back();
  timing.median = (times_us[(count - 1) / 2] + times_us[count / 2]) / 2;
  timing.p99 = times_us[(count * 99 + 99) / 100 - 1];
  return timing;
}

double algorithm_bandwidth(double bytes, double time_us) { return time_us > 0 ? bytes / time_us / 1e3 : 0; }

std::optional<double> crossover(std::span<const PathTimes> times) {
  std::vector<PathTimes> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::optional<double> from;
  for (const PathTimes& at : sorted) {
    if (!at.offload_us || !at.host_us || *at.offload_us >= *at.host_us) break;
    from = at.bytes;
  }
  return from;
}

}  // namespace foldcast::tools
