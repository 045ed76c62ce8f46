#pragma once

#include <memory>
#include <string>

#include "transports/transport.h"

namespace foldcast::transports {

struct UcxOptions : TransportOptions {
  /// Network devices to use, as UCX_NET_DEVICES ("eth0,mlx5_0:1"); empty: all that are up.
  std::string devices;
};

/// UCX active messages over whatever UCX finds between the hosts (InfiniBand, RoCE, TCP), its shared-memory transports
/// excluded: ranks in different network namespaces of one machine are different nodes, yet share the
/// IPC namespace.
/// kUnavailable with UCX's own words when no device is up.
Result<std::unique_ptr<Transport>> make_ucx(const UcxOptions& options = {});

/// The library's version and the devices it found, one line each, for `foldcast info`.
std::string describe_ucx();

}  // namespace foldcast::transports
