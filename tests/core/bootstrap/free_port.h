#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "core/base/check.h"
#include "core/base/unique_fd.h"

namespace foldcast::bootstrap {

/// A TCP port that nobody listens on now.
inline std::uint16_t free_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  FOLDCAST_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0, "no free port");
  FOLDCAST_CHECK(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0, "no port");
  return ntohs(address.sin_port);
}

}  // namespace foldcast::bootstrap
