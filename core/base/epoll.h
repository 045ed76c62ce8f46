#pragma once

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast {

/// A set of descriptors to sleep on together: itself a descriptor, readable while one of them is (epoll(7)).
inline Result<UniqueFd> make_epoll() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error("epoll_create1", errno);
  return epoll;
}

/// Adds `descriptor`, whose events carry `tag` (data.u64). To add one twice is harmless.
inline Status epoll_add(const UniqueFd& epoll, int descriptor, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0 || errno == EEXIST) return ok_status();
  return system_error("epoll_ctl", errno);
}

/// The same; events carry the descriptor itself (data.fd).
inline Status epoll_add(const UniqueFd& epoll, int descriptor) {
  epoll_event event{};
  event.data.fd = descriptor;
  return epoll_add(epoll, descriptor, event.data.u64);
}

}  // namespace foldcast
