#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/engine.h"

namespace foldcast::runtime {

/// What of a communicator a plan's steps refer to. Lives as long as anything runs on it.
struct Endpoints {
  std::int32_t rank = 0;  ///< our own
  std::uint32_t communicator = 0;
  std::vector<std::int32_t> world_ranks;  ///< rank -> rank of the job
  std::vector<Engine*> routes;            ///< rank -> the transport that leads there; null where none is needed
  std::vector<std::int32_t> peers;        ///< rank -> that transport's peer number
  std::vector<std::string> names;         ///< rank -> "rank 3 (node3)", for errors
  std::vector<Engine*> groups;            ///< the plan's groups; null where this rank is no member
  std::vector<std::string> group_names;   ///< "node 0", "tree 0 (rack0 -> spine)"
};

}  // namespace foldcast::runtime
