#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"
#include "hierarchy/topology.h"

namespace foldcast::hierarchy {

/// How an all-reduce is composed from a node part and a network part. Data that is equal on all ranks, so that all
/// build schedules that fit together.
struct Composition {
  /// Between nodes: a name of schedule::all_reduce_algorithms(), or kTree for the aggregation tree. Ignored on one
  /// node.
  std::string network;
  /// How many local ranks of each node own a shard of the network's work: 1 (the leader) up to the smallest node's
  /// size.
  std::uint32_t shards = 1;

  static constexpr const char* kTree = "tree";
  bool offloaded() const { return network == kTree; }
  friend bool operator==(const Composition&, const Composition&) = default;
};

/// "ring"; "node+ring" when a node stage is before and after it, "leader+ring" when only one rank a node goes out;
/// "node" on one node.
std::string name_of(const Layout& layout, const Composition& composition);

/// The engine groups of every composition over a layout, in the order steps refer to them: node k's group is number k,
/// the tree of shard s is number nodes + s (for s below the smallest node's size; members: local rank s of each node).
std::vector<schedule::Group> groups_of(const Layout& layout);

/// One rank's schedule: node reduce_scatter over the shards, the network's all-reduce of this rank's shard, node
/// all_gather. Nodes with one rank skip the node steps; a job on one node is a single node all_reduce. kInvalidArgument
/// for an unknown network or a number of shards that the smallest node does not have.
Result<schedule::Schedule> compose(const Layout& layout, const Composition& composition, std::int32_t rank);

/// compose() for every rank, to verify, print and price.
Result<schedule::Program> compose_all(const Layout& layout, const Composition& composition);

/// Every composition that can be built for a layout, whether or not there is a tree.
std::vector<Composition> compositions_of(const Layout& layout);

}  // namespace foldcast::hierarchy
