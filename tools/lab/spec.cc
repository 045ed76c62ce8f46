#include "tools/lab/spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "fmt/format.h"

namespace foldcast::tools {
namespace {

constexpr int kMaxNodes = 250;
constexpr int kMaxRacks = 100;
constexpr int kMaxRails = 8;
constexpr int kMaxRanksPerNode = 256;
/// The first two numbers of an address and of a MAC address, of which the second says the rail.
constexpr int kFirstSubnet = 77;
constexpr std::string_view kFirstMac = "02:fc:";
constexpr std::uint64_t kMinRate = 100'000;
constexpr std::uint64_t kMaxRate = 100'000'000'000;

Status check_range(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return ok_status();
  return invalid_argument(fmt::format("{} is {}; it must be from {} to {}", option, value, low, high));
}

Status check_rate(std::string_view option, std::uint64_t rate) {
  if (rate == kUnshaped || (rate >= kMinRate && rate <= kMaxRate)) return ok_status();
  return invalid_argument(fmt::format("{} is {}; it must be from {} to {}, or unshaped", option, rate_text(rate),
                                      rate_text(kMinRate), rate_text(kMaxRate)));
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= list.size();) {
    std::size_t end = std::min(list.find(',', start), list.size());
    parts.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

/// "node[0-3]", or "node0" for one.
std::string host_list(std::string_view prefix, int first, int count) {
  if (count == 1) return fmt::format("{}{}", prefix, first);
  return fmt::format("{}[{}-{}]", prefix, first, first + count - 1);
}

}  // namespace

Status LabSpec::validate() const {
  FOLDCAST_RETURN_IF_ERROR(validate_lab_name(name));
  FOLDCAST_RETURN_IF_ERROR(check_range("--nodes", nodes, 1, kMaxNodes));
  FOLDCAST_RETURN_IF_ERROR(check_range("--racks", racks, 1, kMaxRacks));
  if (racks > nodes) {
    return invalid_argument(fmt::format("--racks is {} but --nodes is {}; every rack needs a node", racks, nodes));
  }
  for (int ranks : ranks_per_node) {
    FOLDCAST_RETURN_IF_ERROR(check_range("--ranks-per-node", ranks, 1, kMaxRanksPerNode));
  }
  if (ranks_per_node.size() != 1 && ranks_per_node.size() != static_cast<std::size_t>(nodes)) {
    return invalid_argument(
        fmt::format("--ranks-per-node has {} numbers for {} nodes; give one for all or one for each",
                    ranks_per_node.size(), nodes));
  }
  FOLDCAST_RETURN_IF_ERROR(check_range("--rails", rails, 1, kMaxRails));
  if (!rail_rates.empty() && rail_rates.size() != static_cast<std::size_t>(rails)) {
    return invalid_argument(
        fmt::format("--rail-rates has {} rates for {} rails; give one for each", rail_rates.size(), rails));
  }
  FOLDCAST_RETURN_IF_ERROR(check_range("--mtu", mtu, 576, 65521));
  FOLDCAST_RETURN_IF_ERROR(check_rate("--rate", rate));
  for (std::uint64_t one : rail_rates) FOLDCAST_RETURN_IF_ERROR(check_rate("--rail-rates", one));
  return uplink ? check_rate("--uplink", *uplink) : ok_status();
}

int LabSpec::ranks_on(int node) const {
  return ranks_per_node.size() == 1 ? ranks_per_node.front() : ranks_per_node[static_cast<std::size_t>(node)];
}

int LabSpec::ranks() const {
  int sum = 0;
  for (int node = 0; node < nodes; ++node) sum += ranks_on(node);
  return sum;
}

std::string LabSpec::node_device(int rail) const { return rails == 1 ? "eth0" : fmt::format("rail{}", rail); }

std::string uplink_device(int rail) { return fmt::format("up{}", rail); }

std::string LabHost::address_on(int rail) const {
  std::string_view host = std::string_view(address).substr(address.find('.', address.find('.') + 1));
  return fmt::format("10.{}{}", kFirstSubnet + rail, host);
}

std::string LabHost::mac_on(int rail) const {
  return fmt::format("{}{:02x}{}", kFirstMac, rail, std::string_view(mac).substr(kFirstMac.size() + 2));
}

std::string LabHost::port_on(int rail) const { return rail == 0 ? name : fmt::format("{}-r{}", name, rail); }

LabLayout LabLayout::of(const LabSpec& spec) {
  LabLayout layout;
  for (int rack = 0; rack < spec.racks; ++rack) {
    layout.switches.push_back({.name = fmt::format("rack{}", rack),
                               .address = fmt::format("10.77.255.{}", rack + 1),
                               .mac = fmt::format("02:fc:00:00:01:{:02x}", rack + 1),
                               .uplink = spec.racks > 1 ? spec.racks : -1});
    // Blocks as even as can be, the larger ones first: 5 nodes in 2 racks are 3 + 2.
    int share = spec.nodes / spec.racks + (rack < spec.nodes % spec.racks ? 1 : 0);
    for (int i = 0; i < share; ++i) {
      int node = static_cast<int>(layout.nodes.size());
      layout.nodes.push_back({.name = fmt::format("node{}", node),
                              .address = fmt::format("10.77.0.{}", node + 1),
                              .mac = fmt::format("02:fc:00:00:00:{:02x}", node + 1),
                              .uplink = rack});
    }
  }
  if (spec.racks > 1) {
    layout.switches.push_back({.name = "spine", .address = "10.77.255.254", .mac = "02:fc:00:00:02:01"});
  }
  return layout;
}

std::string LabLayout::topology_conf() const {
  std::string text = "# The lab's switches, in the syntax of Slurm's topology.conf\n";
  int first = 0;
  for (int rack = 0; rack < racks(); ++rack) {
    auto count = static_cast<int>(
        std::count_if(nodes.begin(), nodes.end(), [&](const LabHost& node) { return node.uplink == rack; }));
    text += fmt::format("SwitchName={} Nodes={}\n", switches[static_cast<std::size_t>(rack)].name,
                        host_list("node", first, count));
    first += count;
  }
  if (switches.size() > 1) text += fmt::format("SwitchName=spine Switches={}\n", host_list("rack", 0, racks()));
  return text;
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  if (text == "unshaped") return kUnshaped;
  Status bad = invalid_argument(
      fmt::format("'{}' is not a rate; give a number with a unit, e.g. 200mbit or 1.5gbit, or unshaped", text));
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return bad;
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  double factor = unit == "kbit" ? 1e3 : unit == "mbit" ? 1e6 : unit == "gbit" ? 1e9 : 0;
  if (factor == 0 || number * factor > 1e15) return bad;
  return static_cast<std::uint64_t>(std::llround(number * factor));
}

std::string rate_text(std::uint64_t bits_per_second) {
  if (bits_per_second == kUnshaped) return "unshaped";
  auto bits = static_cast<double>(bits_per_second);
  if (bits >= 1e9) return fmt::format("{:.6g}gbit", bits / 1e9);
  if (bits >= 1e6) return fmt::format("{:.6g}mbit", bits / 1e6);
  return fmt::format("{:.6g}kbit", bits / 1e3);
}

Result<std::vector<int>> parse_ranks_per_node(std::string_view text) {
  std::vector<int> counts;
  for (std::string_view part : split(text)) {
    int count = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc() || end != part.data() + part.size()) {
      return invalid_argument(fmt::format(
          "--ranks-per-node '{}' is no number of ranks; give one for all nodes, or one for each, as in 3,2,1", text));
    }
    counts.push_back(count);
  }
  return counts;
}

Result<std::vector<std::uint64_t>> parse_rail_rates(std::string_view text) {
  std::vector<std::uint64_t> rates;
  for (std::string_view part : split(text)) {
    FOLDCAST_ASSIGN(std::uint64_t rate, parse_rate(part));
    rates.push_back(rate);
  }
  return rates;
}

Result<AggregatorPlacement> parse_placement(std::string_view text) {
  for (auto placement : {AggregatorPlacement::kRackAndSpine, AggregatorPlacement::kRack, AggregatorPlacement::kNone}) {
    if (text == to_string(placement)) return placement;
  }
  return invalid_argument(fmt::format("--aggregators '{}' is unknown; it is rack+spine, rack or none", text));
}

std::string_view to_string(AggregatorPlacement placement) {
  switch (placement) {
    case AggregatorPlacement::kRackAndSpine:
      return "rack+spine";
    case AggregatorPlacement::kRack:
      return "rack";
    case AggregatorPlacement::kNone:
      return "none";
  }
  return "unknown";
}

Status validate_lab_name(std::string_view name) {
  bool good = !name.empty() && name.size() <= 32 && name.front() != '-';
  for (char c : name) good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  if (good) return ok_status();
  return invalid_argument(
      fmt::format("'{}' cannot name a lab; use 1 to 32 of a-z, 0-9 and '-', not beginning with '-'", name));
}

}  // namespace foldcast::tools
