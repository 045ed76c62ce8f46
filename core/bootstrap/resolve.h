#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"
#include "core/bootstrap/socket.h"

namespace foldcast::bootstrap {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

/// "10.0.0.1:7000", "node3:7000" or "[::1]:7000". kInvalidArgument for anything else, a port below `lowest_port`
/// included.
Result<HostPort> parse_host_port(std::string_view text, std::uint16_t lowest_port = 1);

/// The TCP addresses of `host` (a name or an address of either family), in the resolver's order.
/// Blocks until `deadline` at most; a resolver that hangs is left behind in a thread of its own. kUnavailable when the
/// name has no address (now), kTimeout when the resolver does not answer.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, Deadline deadline);

}  // namespace foldcast::bootstrap
