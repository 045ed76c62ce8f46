#include "tools/foldcast/perf_wire.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace foldcast::tools {
namespace {

/// Port counters are in units of four bytes (InfiniBand Architecture Specification, PortCountersExtended).
constexpr std::int64_t kPortUnit = 4;

std::int64_t read_counter(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : 0;
}

WireBytes read_rdma_ports(const std::string& root) {
  WireBytes sum;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(root, error)) {
    std::error_code no_ports;
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", no_ports)) {
      sum.tx += kPortUnit * read_counter(port.path() / "counters" / "port_xmit_data");
      sum.rx += kPortUnit * read_counter(port.path() / "counters" / "port_rcv_data");
    }
  }
  return sum;
}

}  // namespace

Result<WireBytes> parse_net_dev(std::string_view text) {
  WireBytes sum;
  std::stringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    auto colon = line.rfind(':');
    if (colon == std::string::npos) continue;  // the two lines of headings
    auto first = line.find_first_not_of(' ');
    std::string name = line.substr(first, colon - first);
    if (name == "lo") continue;
    // Eight received counters, of which bytes is the first, then the sent ones.
    std::stringstream numbers(line.substr(colon + 1));
    std::int64_t values[9];
    for (std::int64_t& value : values) {
      if (!(numbers >> value)) return unavailable(fmt::format("the counters of interface {} cannot be read", name));
    }
    sum.rx += values[0];
    sum.tx += values[8];
  }
  return sum;
}

Result<WireBytes> read_wire(const WireSource& source) {
  std::ifstream file(source.net_dev);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return unavailable(fmt::format("{} cannot be read, so bytes on the wire are unknown; mount /proc", source.net_dev));
  }
  FOLDCAST_ASSIGN(WireBytes bytes, parse_net_dev(text.str()));
  WireBytes rdma = read_rdma_ports(source.infiniband);
  return WireBytes{bytes.tx + rdma.tx, bytes.rx + rdma.rx};
}

}  // namespace foldcast::tools
