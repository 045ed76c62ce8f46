#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/log.h"
#include "core/bootstrap/channel.h"
#include "core/bootstrap/handshake.h"
#include "core/bootstrap/resolve.h"
#include "core/bootstrap/socket.h"
#include "core/bootstrap/tcp_channel.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxPending = 256;
constexpr std::size_t kMaxAcceptsPerPoll = 2 * kMaxPending;
constexpr auto kHandshakeLimit = 5s;
constexpr auto kFairShare = 500ms;   // when all places are taken, who had one for longer than this gives it up
constexpr auto kAcceptPause = 50ms;  // while no place or descriptor is free
constexpr std::uint64_t kLoudRejections = 8;

Result<UniqueFd> listen_on(const SocketAddress& address) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  int on = 1, off = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) {
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(fd.get(), address.get(), address.length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    if (errno != EADDRINUSE) return system_error("listen on " + address.to_string(), errno);
    return unavailable(fmt::format("{} is in use by another process; choose another port", address.to_string()));
  }
  return fd;
}

Result<UniqueFd> listen_everywhere(std::uint16_t port) {
  SocketAddress any;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(any.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_any;
  v6.sin6_port = htons(port);
  any.length = sizeof v6;
  auto both = listen_on(any);
  if (both.ok() || both.status().code() == Code::kUnavailable) return both;
  any = {};  // a kernel without IPv6
  auto& v4 = reinterpret_cast<sockaddr_in&>(any.storage);
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_ANY);
  v4.sin_port = htons(port);
  any.length = sizeof v4;
  return listen_on(any);
}

class TcpListener final : public ChannelListener {
 public:
  TcpListener(UniqueFd socket, UniqueFd epoll, UniqueFd timer, const ChannelOptions& options)
      : socket_(std::move(socket)), epoll_(std::move(epoll)), timer_(std::move(timer)), options_(options) {}

  Status start() {
    FOLDCAST_RETURN_IF_ERROR(watch(EPOLL_CTL_ADD, socket_.get(), EPOLLIN));
    FOLDCAST_RETURN_IF_ERROR(watch(EPOLL_CTL_ADD, timer_.get(), EPOLLIN));
    SocketAddress bound;
    bound.length = sizeof bound.storage;
    if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
      return system_error("getsockname", errno);
    }
    port_ = ntohs(bound.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound.storage).sin6_port
                                                      : reinterpret_cast<sockaddr_in&>(bound.storage).sin_port);
    return {};
  }

  std::uint16_t port() const override { return port_; }
  int descriptor() const override { return epoll_.get(); }
  std::uint64_t rejected() const override { return rejected_; }

  std::vector<std::unique_ptr<Channel>> poll() override {
    std::uint64_t ticks;
    (void)!::read(timer_.get(), &ticks, sizeof ticks);  // only to make it unreadable again
    accept_waiting();
    std::vector<std::unique_ptr<Channel>> ready;
    auto settled = [&](std::unique_ptr<ServerHandshake>& handshake) {
      switch (handshake->advance()) {
        case ServerHandshake::State::kUnderWay:
          return false;
        case ServerHandshake::State::kFailed:
          reject(*handshake);
          return true;
        case ServerHandshake::State::kDone:
          break;
      }
      (void)watch(EPOLL_CTL_DEL, handshake->descriptor(), 0);
      ready.push_back(std::make_unique<TcpChannel>(handshake->release(), handshake->peer(), options_.max_frame));
      return true;
    };
    std::erase_if(pending_, settled);
    set_timer();
    return ready;
  }

 private:
  Status watch(int operation, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) return system_error("epoll_ctl", errno);
    return {};
  }

  void accept_waiting() {
    bool paused = false;
    for (std::size_t i = 0; i < kMaxAcceptsPerPoll && !paused; ++i) {
      if (!make_room()) {
        paused = true;
        break;
      }
      SocketAddress address;
      address.length = sizeof address.storage;
      UniqueFd fd(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) break;
        // Out of descriptors or memory: whoever waits in the backlog would wake us for ever.
        paused = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        continue;  // otherwise that connection ended before it was accepted
      }
      set_connection_options(fd.get());
      if (!watch(EPOLL_CTL_ADD, fd.get(), EPOLLIN | EPOLLRDHUP).ok()) {
        ++rejected_;
        continue;
      }
      pending_.push_back(std::make_unique<ServerHandshake>(std::move(fd), address.to_string(), options_,
                                                           Deadline::after(kHandshakeLimit)));
    }
    if (paused != is_paused_ && watch(EPOLL_CTL_MOD, socket_.get(), paused ? 0u : EPOLLIN).ok()) is_paused_ = paused;
  }

  /// Honest peers are through within milliseconds, so the oldest handshake is the likeliest stranger.
  bool make_room() {
    if (pending_.size() < kMaxPending) return true;
    ServerHandshake& oldest = *pending_.front();
    if (oldest.deadline().at() - Deadline::Clock::now() > kHandshakeLimit - kFairShare) return false;
    if (oldest.advance() == ServerHandshake::State::kDone) return false;  // poll() is about to hand it out
    log().debug("dropped {}: others wait to shake hands", oldest.peer());
    ++rejected_;
    pending_.erase(pending_.begin());
    return true;
  }

  void reject(const ServerHandshake& handshake) {
    ++rejected_;
    // A misconfigured rank must be heard; a flood of them, or of strangers, must not fill the log.
    bool is_loud = !handshake.is_stranger() && loud_rejections_ < kLoudRejections;
    if (is_loud) ++loud_rejections_;
    log().log(is_loud ? spdlog::level::warn : spdlog::level::debug, "refused {} at port {} ({}): {}", handshake.peer(),
              port_, options_.service, handshake.reason());
  }

  /// Wakes the owner for the next handshake that expires, and to look at the backlog again after a pause.
  void set_timer() {
    itimerspec spec{};
    if (!pending_.empty() || is_paused_) {
      auto wait = std::chrono::nanoseconds(kAcceptPause);
      if (!is_paused_) wait = pending_.front()->deadline().at() - Deadline::Clock::now();
      wait = std::max<std::chrono::nanoseconds>(wait, 1ms);
      spec.it_value.tv_sec = wait / 1s;
      spec.it_value.tv_nsec = (wait % 1s).count();
    }
    (void)::timerfd_settime(timer_.get(), 0, &spec, nullptr);
  }

  UniqueFd socket_, epoll_, timer_;
  const ChannelOptions options_;
  std::uint16_t port_ = 0;
  bool is_paused_ = false;
  std::uint64_t rejected_ = 0, loud_rejections_ = 0;
  std::vector<std::unique_ptr<ServerHandshake>> pending_;  ///< the oldest first
};

}  // namespace

Result<std::unique_ptr<ChannelListener>> ChannelListener::listen(const std::string& host, std::uint16_t port,
                                                                 const ChannelOptions& options) {
  if (options.service.size() > kMaxServiceBytes || options.max_frame == 0) {
    return invalid_argument("a channel's service is too long or its longest frame is empty");
  }
  UniqueFd socket;
  if (host.empty()) {
    FOLDCAST_ASSIGN(socket, listen_everywhere(port));
  } else {
    FOLDCAST_ASSIGN(auto addresses, resolve(host, port, Deadline::after(kHandshakeLimit)));
    FOLDCAST_ASSIGN(socket, listen_on(addresses.front()));
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error("epoll_create1", errno);
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return system_error("timerfd_create", errno);
  auto listener = std::make_unique<TcpListener>(std::move(socket), std::move(epoll), std::move(timer), options);
  FOLDCAST_RETURN_IF_ERROR(listener->start());
  return std::unique_ptr<ChannelListener>(std::move(listener));
}

}  // namespace foldcast::bootstrap
