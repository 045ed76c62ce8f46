#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/collective.h"
#include "core/base/datatype.h"
#include "tools/foldcast/perf_sizes.h"

namespace foldcast::tools {

/// A size as a collective takes it.
struct SizedCount {
  std::uint64_t count = 0;  ///< the call's argument; of collectives with variable counts: the ranks' mean
  std::uint64_t bytes = 0;  ///< of the larger of the two buffers
  std::uint64_t occurrences = 1;
  friend bool operator==(const SizedCount&, const SizedCount&) = default;
};

/// Sizes in bytes as `ranks` ranks take them, rounded down as nccl-tests do: to whole elements; where there is a block
/// for each rank, to equal blocks, which of all_gather, reduce_scatter and all_to_all have a multiple of 16 bytes.
/// Those that become equal are one, with the occurrences of both. A barrier has one size, 0.
std::vector<SizedCount> sized(const std::vector<PerfSize>& sizes, Collective kind, Datatype dtype, int ranks);

/// What the algorithm bandwidth is multiplied with to compare with a link, as in nccl-tests (its doc/PERFORMANCE.md):
/// 2(n-1)/n for all_reduce, (n-1)/n where there is a block for each rank, else 1. 0 for one rank and for a barrier:
/// nothing has to cross a link.
double bus_factor(Collective kind, int ranks);

/// Whether an in-place form exists.
constexpr bool has_in_place(Collective kind) { return kind != Collective::kBarrier && kind != Collective::kSendRecv; }

}  // namespace foldcast::tools
