#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/program.h"

namespace foldcast::schedule {

/// A collective over nodes: `sizes` ranks on each, which follow each other.
struct StagedCall {
  std::vector<std::uint32_t> sizes;
  std::int32_t root = 0;
  /// Every local rank works between the nodes, for its shard or its blocks (nodes of one size); else one rank a node.
  bool columns = false;
  bool in_place = false;
  bool rounds = false;
};

/// Whether the staging below has columns for a kind.
bool has_columns(Collective kind);

/// `algorithm` between the nodes, on channel 3, and groups within them.
Program build_staged(const Algorithm& algorithm, const StagedCall& call);
/// `nodes` nodes of `local` ranks, in columns where the kind has them.
Program build_staged(const Algorithm& algorithm, std::uint32_t nodes, std::uint32_t local);

}  // namespace foldcast::schedule
