#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast::tools {

/// Which switches of a lab run an aggregator.
enum class AggregatorPlacement : std::uint8_t { kRackAndSpine, kRack, kNone };

/// As a rate: whatever the machine moves.
inline constexpr std::uint64_t kUnshaped = 0;

/// What the user asks for.
struct LabSpec {
  std::string name = "lab";
  int nodes = 8;
  int racks = 2;
  std::vector<int> ranks_per_node = {1};  ///< one number for all nodes, or one for each
  int mtu = 9000;
  int rails = 1;
  std::uint64_t rate = 200'000'000;       ///< bits per second of a node's link, each way; or kUnshaped
  std::vector<std::uint64_t> rail_rates;  ///< one for each rail; empty: all have `rate`
  std::optional<std::uint64_t> uplink;    ///< of a rack's link to the spine on each rail; nothing: as the nodes' there
  AggregatorPlacement aggregators = AggregatorPlacement::kRackAndSpine;

  Status validate() const;
  std::uint64_t rate_on(int rail) const {
    return rail_rates.empty() ? rate : rail_rates[static_cast<std::size_t>(rail)];
  }
  std::uint64_t uplink_rate(int rail) const { return uplink.value_or(rate_on(rail)); }
  int ranks_on(int node) const;
  int ranks() const;
  /// A node's interface on a rail: eth0 if there is one rail, else rail0 and so on.
  std::string node_device(int rail) const;
};

/// A rack's interface towards the spine on a rail: up0, up1, ...
std::string uplink_device(int rail);

/// A node or switch: one set of namespaces.
struct LabHost {
  std::string name;     ///< "node3", "rack0", "spine"; its host name as well
  std::string address;  ///< on the first rail, 10.77.0.0/16
  std::string mac;      ///< there
  int uplink = -1;      ///< index of the switch it hangs on; -1: the root

  /// The same in the subnet of another rail, 10.(77 + rail).0.0/16.
  std::string address_on(int rail) const;
  std::string mac_on(int rail) const;
  /// The end, on the switch above, of its link on a rail.
  std::string port_on(int rail) const;
};

/// The hosts of a lab: nodes in blocks under racks, racks under a spine. With one rack that is the root.
struct LabLayout {
  std::vector<LabHost> nodes;
  std::vector<LabHost> switches;  ///< the racks, then the spine if there is one

  static LabLayout of(const LabSpec& spec);
  int racks() const { return static_cast<int>(switches.size() > 1 ? switches.size() - 1 : 1); }
  bool is_spine(std::size_t index) const { return switches.size() > 1 && index + 1 == switches.size(); }
  /// In Slurm's topology.conf syntax.
  std::string topology_conf() const;
};

inline constexpr std::uint16_t kAggregatorPort = 7000;
inline constexpr std::string_view kSubnetPrefix = "/16";

/// "200mbit", "1.5gbit", "800kbit" -> bits per second; "unshaped".
Result<std::uint64_t> parse_rate(std::string_view text);
std::string rate_text(std::uint64_t bits_per_second);
/// "2", or "3,2,1".
Result<std::vector<int>> parse_ranks_per_node(std::string_view text);
/// "200mbit,100mbit".
Result<std::vector<std::uint64_t>> parse_rail_rates(std::string_view text);
Result<AggregatorPlacement> parse_placement(std::string_view text);
std::string_view to_string(AggregatorPlacement placement);
/// 1 to 32 of a-z, 0-9, '-', beginning with a letter or digit: it becomes a file name.
Status validate_lab_name(std::string_view name);

}  // namespace foldcast::tools
