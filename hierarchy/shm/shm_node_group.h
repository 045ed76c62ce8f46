#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "hierarchy/node_group.h"

namespace foldcast::hierarchy {

struct ShmOptions {
  std::string name;  ///< unique per job and node, equal on its members, e.g. random hex the leader chose
  int rank = 0;      ///< local rank
  int size = 1;
  std::uint64_t slot_bytes = 64u << 10;  ///< piece of a large call
  std::uint32_t slots = 32;              ///< pieces in flight per lane
  bool cross_memory = true;              ///< read large inputs where they are, if the system allows it
  std::chrono::milliseconds timeout{30000};
};

/// Joins the members through one anonymous memory segment (a memfd that local rank 0 passes over an abstract Unix
/// socket, with one eventfd per member as doorbell), so nothing has a name in a file system and nothing is left behind
/// however the job ends. Blocks until all members are there or `timeout`, which names those that are missing.
Result<std::unique_ptr<NodeGroup>> make_shm_node_group(const ShmOptions& options);

struct ShmChildOptions {
  std::string name;          ///< as ShmOptions::name; of its own
  std::vector<int> members;  ///< local ranks of the parent, in the order of the child's; the caller among them
  std::uint64_t slot_bytes = 16u << 10;
  std::uint32_t slots = 4;
  std::chrono::milliseconds timeout{30000};
};

/// A group of some of a group's members, who all call this, for a sub-communicator. It sleeps on the parent's doorbells
/// (see Doorbells for the rule) and keeps no descriptor open; its segment takes 2 * slots * slot_bytes for each member,
/// so by default 128 KiB. Members read each other's memory where the parent's do. `parent` is one that a function here
/// made; it may go first.
Result<std::unique_ptr<NodeGroup>> make_shm_child_group(const NodeGroup& parent, const ShmChildOptions& options);

}  // namespace foldcast::hierarchy
