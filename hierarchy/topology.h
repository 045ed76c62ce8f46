#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace foldcast::hierarchy {

/// Where one rank runs: what ranks tell each other at set-up.
struct HostIdentity {
  std::string hostname;
  std::string kernel;  ///< boot id: equal for all that share the cores
  std::string node;    ///< boot id, network namespace and shared-memory mount: equal for those that share memory
  /// The cores this process may run on, by hwloc's logical numbers of the whole machine, as "0-3,7".
  std::string core_set = "0";
  std::uint32_t cores = 1;  ///< how many those are

  std::string serialize() const;
  static Result<HostIdentity> parse(std::string_view bytes);
};

/// Of this process, `hostname` empty: gethostname. Uses hwloc for the cores.
Result<HostIdentity> this_host(const std::string& hostname);

/// Who shares a node. Nodes are numbered by their lowest rank; local ranks follow rank order.
struct Layout {
  std::vector<std::int32_t> node_of;             ///< per rank
  std::vector<std::int32_t> local_rank_of;       ///< per rank
  std::vector<std::vector<std::int32_t>> nodes;  ///< ranks of each node
  std::vector<std::string> hostnames;            ///< per node
  std::uint32_t ranks_per_kernel = 1;            ///< most ranks that share one machine's cores
  std::uint32_t cores = 1;                       ///< of one machine, those any of its ranks may run on: the least
  bool oversubscribed = false;                   ///< some machine has more ranks than cores for them

  std::size_t size() const { return node_of.size(); }
  std::size_t smallest_node() const;
  static Layout from(std::span<const HostIdentity> ranks);
  /// Of a sub-communicator: these ranks, renumbered in the given order. Cores and their load stay those of the whole,
  /// whose other ranks are not gone.
  Layout subset(std::span<const std::int32_t> ranks) const;
  /// nodes x ranks_per_node, for planning and explaining without a job.
  static Layout uniform(std::uint32_t nodes, std::uint32_t ranks_per_node);
};

}  // namespace foldcast::hierarchy
