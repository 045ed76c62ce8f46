#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast::tools {

/// Which switches of a lab run an aggregator.
enum class AggregatorPlacement : std::uint8_t { kRackAndSpine, kRack, kNone };

/// What the user asks for.
struct LabSpec {
  std::string name = "lab";
  int nodes = 8;
  int racks = 2;
  int ranks_per_node = 1;
  int mtu = 9000;
  std::uint64_t rate = 200'000'000;  ///< bits per second of a node's link, each way
  std::uint64_t uplink = 0;          ///< of a rack's link to the spine; 0: as `rate`
  AggregatorPlacement aggregators = AggregatorPlacement::kRackAndSpine;

  Status validate() const;
  std::uint64_t uplink_rate() const { return uplink ? uplink : rate; }
};

/// A node or switch: one set of namespaces.
struct LabHost {
  std::string name;     ///< "node3", "rack0", "spine"; its host name as well
  std::string address;  ///< in the lab's one subnet, 10.77.0.0/16
  std::string mac;
  int uplink = -1;  ///< index of the switch it hangs on; -1: the root
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

/// "200mbit", "1.5gbit", "800kbit" -> bits per second.
Result<std::uint64_t> parse_rate(std::string_view text);
std::string rate_text(std::uint64_t bits_per_second);
Result<AggregatorPlacement> parse_placement(std::string_view text);
std::string_view to_string(AggregatorPlacement placement);
/// 1 to 32 of a-z, 0-9, '-', beginning with a letter or digit: it becomes a file name.
Status validate_lab_name(std::string_view name);

}  // namespace foldcast::tools
