#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/base/status.h"
#include "core/schedule/schedule.h"
#include "hierarchy/topology.h"

namespace foldcast::hierarchy {

/// What of a call its schedule depends on. Equal on all ranks, but for `in_place`, which may differ: messages do not.
/// Schedules made for in place are right for memory that is apart as well, and wait for more.
struct Request {
  Collective kind = Collective::kAllReduce;
  std::int32_t root = 0;
  bool in_place = true;
  bool rounds = false;  ///< what is sent is rounded to a wire format, in place; see Builder::set_rounding
  friend bool operator==(const Request&, const Request&) = default;
};

/// How a collective is composed from a node part and a network part. Data that is equal on all ranks, so that all build
/// schedules that fit together.
struct Composition {
  enum class Form : std::uint8_t {
    kNode,     ///< the job is one node: a single call of its group
    kFlat,     ///< the algorithm among all ranks, without node groups
    kLeaders,  ///< one rank a node works between nodes, for all of its node
    kShards,   ///< several ranks a node do, each for its share
  };
  Form form = Form::kFlat;
  /// Between nodes: a name of schedule::algorithms_of(kind), or kTree for the aggregation tree.
  std::string network;
  /// How many ranks of each node own a share of the network's work: up to the smallest node's size.
  std::uint32_t shards = 1;

  static constexpr const char* kTree = "tree";
  bool offloaded() const { return network == kTree; }
  friend bool operator==(const Composition&, const Composition&) = default;
};

/// "ring"; with several ranks on some node: "node+ring" for shards, "leader+ring", "flat+ring"; "node" on one node.
std::string name_of(const Layout& layout, const Composition& composition);

/// The engine groups of every composition over a layout, in the order steps refer to them: node k's group is number k,
/// the tree of shard s is number nodes + s (for s below the smallest node's size; members: local rank s of each node).
std::vector<schedule::Group> groups_of(const Layout& layout);

/// One rank's schedule. kInvalidArgument for an unknown network, a number of shards that the smallest node does not
/// have, or a form that the layout does not allow (see compositions_of).
Result<schedule::Schedule> compose(const Layout& layout, const Request& request, const Composition& composition,
                                   std::int32_t rank);

/// compose() for every rank, to verify, print and price.
Result<schedule::Program> compose_all(const Layout& layout, const Request& request, const Composition& composition);

/// Every composition that can be built for a collective over a layout, whether or not there is a tree.
///
/// Block collectives have blocks in rank order, and a node's part of them is one piece only where its ranks follow each
/// other; else they run flat. Shards of blocks also need nodes of one size.
std::vector<Composition> compositions_of(const Layout& layout, Collective kind);

/// Whether a call may be cut into fragments. A fragment has a part of every block: then messages of several blocks are
/// not in one piece any more, nor is what a group works on; and all ranks must know into how many.
bool is_divisible(Collective kind, const Composition& composition);

/// The form in which one rank a node works between nodes.
Composition::Form leading_form(const Layout& layout);

/// Whether each node's ranks follow each other, so that node order is rank order.
bool is_consecutive(const Layout& layout);

}  // namespace foldcast::hierarchy
