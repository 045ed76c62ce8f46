#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/group_caps.h"

namespace foldcast::select {

/// What a plan is priced with: a few numbers about the fabric, equal on all ranks. Those of links and tree are measured
/// (see calibrate), then agreed; those of nodes and reduction are typical of a server, the same everywhere.
struct LinkModel {
  double latency_us = 10;             ///< one small message between two nodes, as these ranks run (asleep or spinning)
  double bytes_per_us = 1000;         ///< payload through one node's link, one direction (1 byte/us = 8 Mbit/s)
  std::vector<double> rails;          ///< where messages are striped: bytes_per_us of each rail alone
  double node_latency_us = 5;         ///< one step of a node group
  double node_bytes_per_us = 4000;    ///< contributions a rank reads and reduces from its node's memory
  double reduce_bytes_per_us = 4000;  ///< reduction on one core

  bool tree = false;             ///< an aggregation tree was joined by all
  std::string tree_refusal;      ///< why not, for a person
  std::string tree_description;  ///< what was joined, for a person
  GroupCaps tree_caps;
  double tree_latency_us = 0;    ///< an all-reduce of a few bytes through the tree
  double tree_bytes_per_us = 0;  ///< rate at which a node's contributions flow through it
};

}  // namespace foldcast::select
