#include "tools/foldcast/perf_shape.h"

#include <algorithm>

namespace foldcast::tools {
namespace {

constexpr std::size_t kBlockAlignment = 16;

SizedCount rounded(std::uint64_t bytes, Collective kind, Datatype dtype, int ranks) {
  std::uint64_t count = bytes / size_of(dtype);
  if (!has_blocks(kind)) return {count, count * size_of(dtype), 1};
  auto blocks = static_cast<std::uint64_t>(ranks);
  count /= blocks;
  bool aligned = kind == Collective::kAllGather || kind == Collective::kReduceScatter || kind == Collective::kAllToAll;
  if (aligned) count -= count % (kBlockAlignment / size_of(dtype));
  return {count, count * blocks * size_of(dtype), 1};
}

}  // namespace

std::vector<SizedCount> sized(const std::vector<PerfSize>& sizes, Collective kind, Datatype dtype, int ranks) {
  if (kind == Collective::kBarrier) return {{0, 0, 1}};
  std::vector<SizedCount> list;
  for (const PerfSize& size : sizes) {
    SizedCount one = rounded(size.bytes, kind, dtype, ranks);
    one.occurrences = size.occurrences;
    auto same =
        std::find_if(list.begin(), list.end(), [&](const SizedCount& other) { return other.count == one.count; });
    if (same == list.end()) {
      list.push_back(one);
    } else {
      same->occurrences += one.occurrences;
    }
  }
  return list;
}

double bus_factor(Collective kind, int ranks) {
  if (ranks < 2 || kind == Collective::kBarrier) return 0;
  double share = static_cast<double>(ranks - 1) / ranks;
  if (kind == Collective::kAllReduce) return 2 * share;
  return has_blocks(kind) ? share : 1;
}

}  // namespace foldcast::tools
