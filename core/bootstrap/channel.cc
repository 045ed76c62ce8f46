#include "core/bootstrap/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/log.h"
#include "core/bootstrap/handshake.h"
#include "core/bootstrap/resolve.h"
#include "core/bootstrap/socket.h"
#include "core/bootstrap/tcp_channel.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPrefixBytes = 4;
constexpr std::size_t kReadBlock = 64u << 10;
constexpr auto kAttemptLimit = 6s;  // a little over what a listener gives a handshake
constexpr auto kFirstPause = 10ms;
constexpr auto kLongestPause = 250ms;
constexpr auto kSayWaitingAfter = 3s;

Deadline earlier(Deadline a, Deadline b) { return a.at() < b.at() ? a : b; }

/// Trying a local port from the ephemeral range that nobody listens on can, by simultaneous open, reach oneself.
bool is_connected_to_itself(int fd) {
  SocketAddress ours, theirs;
  ours.length = theirs.length = sizeof ours.storage;
  bool known = ::getsockname(fd, reinterpret_cast<sockaddr*>(&ours.storage), &ours.length) == 0 &&
               ::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs.storage), &theirs.length) == 0;
  return known && ours.length == theirs.length && std::memcmp(&ours.storage, &theirs.storage, ours.length) == 0;
}

Result<UniqueFd> connect_socket(const SocketAddress& address, Deadline deadline) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  if (::connect(fd.get(), address.get(), address.length) != 0 && errno != EINPROGRESS) {
    return peer_failed(std::strerror(errno));
  }
  FOLDCAST_RETURN_IF_ERROR(wait_until_ready(fd.get(), POLLOUT, deadline, "the connection to be accepted"));
  int error = 0;
  socklen_t length = sizeof error;
  (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0 && is_connected_to_itself(fd.get())) error = ECONNREFUSED;
  if (error != 0) return peer_failed(std::strerror(error));
  set_connection_options(fd.get());
  return fd;
}

/// One try at each address of the host. kUnavailable from a handshake is final.
struct Attempt {
  Status status;
  bool is_final = false;
  std::unique_ptr<Channel> channel;
};

Attempt try_connect(const std::string& host, std::uint16_t port, const ChannelOptions& options, Deadline deadline) {
  auto addresses = resolve(host, port, deadline);
  if (!addresses.ok()) return {addresses.status(), false, nullptr};
  Status last;
  for (const SocketAddress& address : *addresses) {
    auto limit = earlier(deadline, Deadline::after(kAttemptLimit));
    auto fd = connect_socket(address, limit);
    last = fd.status();
    if (!fd.ok()) continue;
    last = shake_hands_as_client(fd->get(), options, limit);
    if (last.code() == Code::kUnavailable) return {last, true, nullptr};
    if (!last.ok()) continue;
    return {{}, true, std::make_unique<TcpChannel>(*std::move(fd), address.to_string(), options.max_frame)};
  }
  return {last, false, nullptr};
}

}  // namespace

Result<std::unique_ptr<Channel>> Channel::connect(const std::string& host, std::uint16_t port,
                                                  const ChannelOptions& options, Deadline deadline) {
  if (host.empty() || port == 0) {
    return invalid_argument(fmt::format("cannot connect to \"{}:{}\": it needs a host and a port above 0", host, port));
  }
  if (options.service.size() > kMaxServiceBytes || options.max_frame == 0) {
    return invalid_argument("a channel's service is too long or its longest frame is empty");
  }
  std::string target = fmt::format("{}:{} ({})", host, port, options.service);
  auto started = Deadline::Clock::now();
  bool said_waiting = false;
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    Attempt attempt = try_connect(host, port, options, deadline);
    if (attempt.channel) return std::move(attempt.channel);
    if (attempt.is_final) return attempt.status.with_context(target);
    auto waited = Deadline::Clock::now() - started;
    if (deadline.passed() || deadline.at() - Deadline::Clock::now() < pause) {
      return unavailable(fmt::format("no connection to {} within {:.1f} s: {}; is it running and reachable?", target,
                                     std::chrono::duration<double>(waited).count(), attempt.status.message()));
    }
    if (!said_waiting && waited > kSayWaitingAfter) {
      log().warn("still trying to connect to {}: {}", target, attempt.status.message());
      said_waiting = true;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

TcpChannel::TcpChannel(UniqueFd fd, std::string peer, std::uint32_t max_frame)
    : fd_(std::move(fd)), peer_(std::move(peer)), max_frame_(max_frame) {}

Status TcpChannel::send(std::string_view frame) {
  if (frame.size() > max_frame_) {
    return invalid_argument(
        fmt::format("a frame of {} bytes to {} is over the limit of {}", frame.size(), peer_, max_frame_));
  }
  if (!write_error_.ok()) return write_error_;
  write_some();
  std::size_t queued = out_.size() - out_at_;
  if (queued + frame.size() > 4ull * max_frame_) {
    return Status(Code::kResourceExhausted,
                  fmt::format("{} bytes already wait to be read by {}; it is stuck or too slow", queued, peer_));
  }
  auto length = static_cast<std::uint32_t>(frame.size());
  for (int shift = 24; shift >= 0; shift -= 8) out_ += static_cast<char>(length >> shift & 0xff);
  out_ += frame;
  write_some();
  return write_error_;
}

void TcpChannel::write_some() {
  while (wants_write()) {
    ssize_t sent = ::send(fd_.get(), out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      write_error_ = peer_failed(fmt::format("connection to {} lost: {}", peer_, std::strerror(errno)));
      return;
    }
    out_at_ += static_cast<std::size_t>(sent);
    if (2 * out_at_ >= out_.size()) {  // seldom enough that moving the rest costs less than having written it
      out_.erase(0, out_at_);
      out_at_ = 0;
    }
  }
}

Status TcpChannel::flush(Deadline deadline) {
  for (;;) {
    write_some();
    if (!wants_write()) return write_error_;
    FOLDCAST_RETURN_IF_ERROR(wait_until_ready(fd_.get(), POLLOUT, deadline, fmt::format("{} to read", peer_)));
  }
}

Result<std::optional<std::string>> TcpChannel::take_frame() {
  std::string_view bytes = std::string_view(in_).substr(in_at_);
  if (bytes.size() < kPrefixBytes) return std::optional<std::string>();
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kPrefixBytes; ++i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > max_frame_) {
    return peer_failed(
        fmt::format("{} announced a frame of {} bytes, over the limit of {}", peer_, length, max_frame_));
  }
  if (bytes.size() - kPrefixBytes < length) return std::optional<std::string>();
  std::optional<std::string> frame(bytes.substr(kPrefixBytes, length));
  in_at_ += kPrefixBytes + length;
  if (2 * in_at_ >= in_.size()) {
    in_.erase(0, in_at_);
    in_at_ = 0;
  }
  return frame;
}

Result<std::optional<std::string>> TcpChannel::try_receive() {
  write_some();
  char block[kReadBlock];
  while (read_error_.ok()) {
    auto frame = take_frame();
    if (!frame.ok()) {
      read_error_ = frame.status();
      break;
    }
    if (*frame) return frame;
    ssize_t got = ::recv(fd_.get(), block, sizeof block, MSG_DONTWAIT);
    if (got > 0) {
      in_.append(block, static_cast<std::size_t>(got));
    } else if (got == 0) {
      read_error_ = peer_failed(
          fmt::format("{} closed the connection{}", peer_, in_at_ < in_.size() ? " in the middle of a frame" : ""));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!write_error_.ok()) return write_error_;
      return std::optional<std::string>();
    } else if (errno != EINTR) {
      read_error_ = peer_failed(fmt::format("connection to {} lost: {}", peer_, std::strerror(errno)));
    }
  }
  return read_error_;
}

Result<std::string> TcpChannel::receive(Deadline deadline) {
  for (;;) {
    FOLDCAST_ASSIGN(auto frame, try_receive());
    if (frame) return *std::move(frame);
    short events = wants_write() ? POLLIN | POLLOUT : POLLIN;
    FOLDCAST_RETURN_IF_ERROR(wait_until_ready(fd_.get(), events, deadline, fmt::format("a message from {}", peer_)));
  }
}

}  // namespace foldcast::bootstrap
