#pragma once

#include <optional>
#include <span>
#include <vector>

namespace foldcast::tools {

/// How long the iterations of one size took, microseconds.
struct Timing {
  double min = 0;
  double median = 0;  ///< the mean of the middle two when their number is even
  double p99 = 0;  ///< nearest rank: the least time that 99 % of the iterations did not exceed; with under 100, the max
  double max = 0;
};

/// All zero for no iterations.
Timing summarize(std::vector<double> times_us);

/// Decimal gigabytes a second for `bytes` in `time_us`; 0 when no time passed.
double algorithm_bandwidth(double bytes, double time_us);

/// Both paths' median at one size; nothing when the path was not taken (an offload request that ran on the hosts).
struct PathTimes {
  double bytes = 0;
  std::optional<double> offload_us;
  std::optional<double> host_us;
};

/// The smallest size from which the offload path is faster at it and at every larger one; nothing when it is not even
/// at the largest. `times` in any order.
std::optional<double> crossover(std::span<const PathTimes> times);

}  // namespace foldcast::tools
