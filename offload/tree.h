#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/bootstrap/host_list.h"

namespace foldcast::offload {

/// The fabric's switches as a forest, from a file in Slurm's topology.conf syntax:
///   SwitchName=rack0 Nodes=node[0-3]
///   SwitchName=spine Switches=rack[0-1]
/// Comments (#), continuation of a name list with commas and nested ranges like node[0-3,7] are understood.
struct SwitchTopology {
  struct Switch {
    std::string name;
    std::int32_t parent = -1;
    std::vector<std::string> nodes;
  };
  std::vector<Switch> switches;

  /// Errors name the line.
  static Result<SwitchTopology> parse(std::string_view text);
  static Result<SwitchTopology> load(const std::string& path);
};

using bootstrap::expand_host_list;

/// An aggregation tree for one group: aggregators as inner vertices, members as leaves.
struct Tree {
  struct Vertex {
    std::string name;     ///< of the switch
    std::string control;  ///< host:port of its aggregator
    std::int32_t parent = -1;
    std::vector<std::int32_t> children;  ///< vertices
    std::vector<std::int32_t> members;   ///< leaves below it, in member order
    friend bool operator==(const Vertex&, const Vertex&) = default;
  };
  std::vector<Vertex> vertices;  ///< parents before children: vertex 0 is the root
  std::vector<std::int32_t> parent_of_member;
  std::vector<std::string> hosts;  ///< of the members, for people; empty or as many as members
  friend bool operator==(const Tree&, const Tree&) = default;

  /// Levels of aggregators between a member and the root, the most over all members.
  std::uint32_t depth() const;
  /// "member 3 (node3)", or "member 3" without hosts.
  std::string member_name(std::int32_t member) const;
  /// "spine(rack0(node0 node1) rack1(node2 node3))".
  std::string describe() const;
  /// Whether this is one tree: vertex 0 the root, every other vertex below an earlier one, all lists agreeing with the
  /// parents, and no vertex without children. What arrives over the wire must be asked.
  Status validate() const;
};

struct ControlAddress {
  std::string host;
  std::uint16_t port = 0;
};
/// "10.0.0.1:7000" or "[::1]:7000".
Result<ControlAddress> split_control(std::string_view text);

/// "rack0=10.0.0.1:7000,spine=10.0.0.2:7000".
Result<std::map<std::string, std::string>> parse_aggregators(std::string_view text);

/// The least tree that covers `hosts` (one member each, in order): switches without an aggregator, and those that would
/// have one child only, are left out; where the common switch has none, the first aggregator below it is the root of
/// the others. kUnavailable naming the host or switch when a member has no aggregator above it or nothing joins the
/// parts.
Result<Tree> build_tree(const SwitchTopology& topology, const std::map<std::string, std::string>& aggregators,
                        std::span<const std::string> hosts);

}  // namespace foldcast::offload
