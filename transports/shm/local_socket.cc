#include "transports/shm/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace foldcast::transports {
namespace {

constexpr int kType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int kBacklog = 4096;

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;
  explicit Address(const std::string& name) {
    address.sun_family = AF_UNIX;
    // The first byte stays zero: an abstract name.
    const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), bytes);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Result<LocalSocket> LocalSocket::listen(const std::string& address) {
  UniqueFd fd(::socket(AF_UNIX, kType, 0));
  if (!fd) return system_error("socket for the ranks of a node", errno);
  const Address at(address);
  if (::bind(fd.get(), at.get(), at.length) != 0) {
    if (errno == EADDRINUSE) return unavailable("local address @" + address + " is taken by another process");
    return system_error("bind to local address @" + address, errno);
  }
  if (::listen(fd.get(), kBacklog) != 0) return system_error("listen at local address @" + address, errno);
  return LocalSocket(std::move(fd));
}

Result<std::optional<LocalSocket>> LocalSocket::try_connect(const std::string& address) {
  UniqueFd fd(::socket(AF_UNIX, kType, 0));
  if (!fd) return system_error("socket for the ranks of a node", errno);
  const Address at(address);
  if (::connect(fd.get(), at.get(), at.length) == 0) return std::optional<LocalSocket>(LocalSocket(std::move(fd)));
  // EAGAIN: the listener's backlog is full for the moment.
  if (errno == ECONNREFUSED || would_block(errno) || errno == EINTR) return std::optional<LocalSocket>();
  return system_error("connect to local address @" + address, errno);
}

std::optional<LocalSocket> LocalSocket::try_accept() {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return std::nullopt;
  return LocalSocket(std::move(fd));
}

Status LocalSocket::send(std::string_view bytes, std::span<const int> descriptors, Deadline deadline) {
  FOLDCAST_CHECK(bytes.size() <= kMaxBytes && descriptors.size() <= kMaxDescriptors, "message too long");
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) >= 0) return ok_status();
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return peer_failed("it closed a local socket");
    if (!would_block(errno)) return system_error("send over a local socket", errno);
    if (deadline.passed()) return timeout("it does not read from a local socket");
    pollfd wait{fd_.get(), POLLOUT, 0};
    (void)::poll(&wait, 1, deadline.poll_timeout());
  }
}

Result<std::optional<LocalMessage>> LocalSocket::try_receive() {
  LocalMessage received;
  received.bytes.resize(kMaxBytes);
  iovec part{received.bytes.data(), received.bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t count = 0;
  do {
    count = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && would_block(errno)) return std::optional<LocalMessage>();
  if (count < 0 && errno != ECONNRESET) return system_error("receive over a local socket", errno);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t fds = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.descriptors.emplace_back(fd);
    }
  }
  if (count <= 0) return peer_failed("it closed a local socket");
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return resource_exhausted("a message over a local socket was cut; is the descriptor limit (ulimit -n) reached?");
  }
  received.bytes.resize(static_cast<std::size_t>(count));
  return std::optional<LocalMessage>(std::move(received));
}

bool LocalSocket::is_same_user() const {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  return ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.uid == ::geteuid();
}

}  // namespace foldcast::transports
