#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace foldcast::tools {

/// Bytes since boot that left and entered a node.
struct WireBytes {
  std::int64_t tx = 0;
  std::int64_t rx = 0;
};

/// Where the kernel shows its counters; other paths are for tests.
struct WireSource {
  /// Follows the caller's network namespace, which a mounted /sys does not: that shows the namespace it was mounted in.
  std::string net_dev = "/proc/thread-self/net/dev";
  std::string infiniband = "/sys/class/infiniband";
};

/// The sum over all network interfaces but the loopback, and over the RDMA ports, whose traffic passes by the
/// interfaces. Interfaces stacked on others (bonds, bridges, VLANs) count again what the ones below them count.
/// kUnavailable when the interfaces' counters cannot be read.
Result<WireBytes> read_wire(const WireSource& source = {});

}  // namespace foldcast::tools
