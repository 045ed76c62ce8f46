#include "tools/foldcast/perf_wire.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "tools/system/file.h"
#include "tools/system/net_dev.h"

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

Result<WireBytes> read_wire(const WireSource& source) {
  std::optional<std::string> text = read_file(source.net_dev);
  if (!text) {
    return unavailable(fmt::format("{} cannot be read, so bytes on the wire are unknown; mount /proc", source.net_dev));
  }
  FOLDCAST_ASSIGN(std::vector<InterfaceBytes> interfaces, parse_net_dev(*text));
  WireBytes bytes = read_rdma_ports(source.infiniband);
  for (const InterfaceBytes& one : interfaces) {
    if (one.name == "lo") continue;
    bytes.tx += one.tx;
    bytes.rx += one.rx;
  }
  return bytes;
}

}  // namespace foldcast::tools
