#include "tools/foldcast/perf_rows.h"

#include <fmt/format.h>

namespace foldcast::tools {
namespace {

std::vector<int> roots_of(const PerfOptions& options, int ranks) {
  if (!has_root(options.collective)) return {0};
  if (options.root >= ranks) {
    throw UsageError(fmt::format("-r {}: the job has {} rank{}; give a rank from 0 to {}, or -1 for all in turn",
                                 options.root, ranks, ranks == 1 ? "" : "s", ranks - 1));
  }
  if (options.root != kAllRoots) return {options.root};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

}  // namespace

std::vector<std::vector<PerfCase>> rows_of(const PerfOptions& options, int ranks) {
  std::vector<std::vector<PerfCase>> rows;
  for (Datatype dtype : options.datatypes) {
    std::vector<SizedCount> sizes = sized(options.sizes, options.collective, dtype, ranks);
    for (ReduceOp op : options.ops_of(dtype)) {
      for (int root : roots_of(options, ranks)) {
        for (const SizedCount& size : sizes) {
          std::vector<PerfCase>& row = rows.emplace_back();
          for (PerfPath path : options.paths) row.push_back({options.collective, size, dtype, op, root, path});
        }
      }
    }
    if (options.collective == Collective::kBarrier) break;  // has no datatype
  }
  return rows;
}

}  // namespace foldcast::tools
