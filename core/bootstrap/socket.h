#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/status.h"

namespace foldcast::bootstrap {

/// An address as the system calls take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// "10.0.0.3:41234", "[fe80::1]:41234"; an IPv4 address mapped into IPv6 reads as IPv4.
  std::string to_string() const;
};

/// Sleeps until `fd` has one of `events` (poll(2)) or an error. kTimeout names `what`, as in "waiting for <what>".
Status wait_until_ready(int fd, short events, Deadline deadline, std::string_view what);

/// The first 256 bytes, with a ? for what a terminal might take for more than text: what a stranger wrote may end up in
/// one.
std::string printable(std::string_view text);

/// No Nagle delay, and probes that end a connection to a host that vanished within some ten seconds. Sockets that are
/// not TCP are left alone.
void set_connection_options(int fd);

}  // namespace foldcast::bootstrap
