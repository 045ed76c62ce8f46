// Connections of a shared-memory transport: how they come to be and end, and who sleeps.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/epoll.h"
#include "core/base/log.h"
#include "transports/shm/shm_transport.h"

namespace foldcast::transports {
namespace {

constexpr std::string_view kScheme = "shm:";
constexpr std::size_t kMostStrangers = 1024;
/// How long the end waits for peers to make room for what was sent before it.
constexpr auto kDrainTimeout = std::chrono::seconds(1);

/// The first message of who connects; the next ones bring the ring's memory or wake.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x31'6d'68'73'74'73'63'66;  // "fcstshm1"
  std::uint64_t magic = kMagic;
  std::uint64_t token = 0;
  Identity identity = 0;
};

std::string local_address(Identity identity) { return fmt::format("foldcast-shm-{:016x}", identity); }

Status gone() { return peer_failed("is gone: it closed its transport or died; its own log may say why"); }

}  // namespace

Result<std::unique_ptr<Transport>> make_shm(const ShmTransportOptions& options) {
  return ShmTransport::create(options);
}

ShmTransport::ShmTransport(const ShmTransportOptions& options)
    : token_(options.token),
      cross_memory_(options.cross_memory),
      matcher_(options.unexpected_bytes, peers_, completions_) {}

Result<std::unique_ptr<Transport>> ShmTransport::create(const ShmTransportOptions& options) {
  std::unique_ptr<ShmTransport> made(new ShmTransport(options));
  FOLDCAST_RETURN_IF_ERROR(made->start());
  return std::unique_ptr<Transport>(std::move(made));
}

Status ShmTransport::start() {
  FOLDCAST_ASSIGN(epoll_, make_epoll());
  FOLDCAST_ASSIGN(listener_, LocalSocket::listen(local_address(identity_)));
  return epoll_add(epoll_, listener_.descriptor());
}

ShmTransport::~ShmTransport() {
  const Status closed = aborted("the transport was closed");
  for (const Deadline deadline = Deadline::after(kDrainTimeout);;) {
    bool drained = true;
    for (auto& link : links_) {
      if (!link || peers_.failed(link->peer)) continue;
      // What was offered needs this side until it is over; only what is complete for the caller is owed to the peer.
      std::erase_if(link->out.pending, [](const Pending& one) { return one.kind == RecordKind::kOffer; });
      send_pending(*link);
      drained = drained && link->out.pending.empty();
    }
    settle();
    if (drained) break;
    if (deadline.passed()) {
      log().warn("a peer within the node did not take within 1 s what was sent to it before this end closed");
      break;
    }
    std::this_thread::yield();
  }
  for (std::int32_t peer = 0; peer < peers_.size(); ++peer) {
    matcher_.forget_peer(peer, closed);
    if (Link* link = find_link(peer)) close(*link, closed);
  }
}

std::string ShmTransport::address() const {
  std::string address(kScheme);
  return address.append(reinterpret_cast<const char*>(&identity_), sizeof identity_);
}

ShmTransport::Link* ShmTransport::find_link(std::int32_t peer) {
  const auto index = static_cast<std::size_t>(peer);
  return index < links_.size() ? links_[index].get() : nullptr;
}

ShmTransport::Link& ShmTransport::link(std::int32_t peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (links_.size() <= index) links_.resize(index + 1);
  if (!links_[index]) {
    links_[index] = std::make_unique<Link>();
    links_[index]->owner = this;
    links_[index]->peer = peer;
  }
  return *links_[index];
}

Result<std::int32_t> ShmTransport::connect(std::string_view address, std::string_view name) {
  Identity identity = 0;
  if (!address.starts_with(kScheme) || address.size() != kScheme.size() + sizeof identity) {
    return invalid_argument(fmt::format("the address given for {} is not one of a shared-memory transport", name));
  }
  std::memcpy(&identity, address.data() + kScheme.size(), sizeof identity);
  const std::int32_t peer = peers_.connect(identity, name);
  if (peer < 0) return resource_exhausted(fmt::format("no peer number is left for {}", name));
  if (identity == identity_) {
    self_ = peer;
    return peer;
  }
  Link& to = link(peer);
  if (to.out.socket.descriptor() >= 0 || peers_.failed(peer)) return peer;
  FOLDCAST_ASSIGN(auto connected, LocalSocket::try_connect(local_address(identity)));
  Hello hello;
  hello.token = token_;
  hello.identity = identity_;
  const std::string_view bytes(reinterpret_cast<const char*>(&hello), sizeof hello);
  if (!connected || !connected->is_same_user() || !connected->send(bytes, {}, Deadline::after({})).ok()) {
    fail(to, gone());
    return peer;
  }
  to.out.socket = std::move(*connected);
  FOLDCAST_RETURN_IF_ERROR(epoll_add(epoll_, to.out.socket.descriptor()));
  return peer;
}

void ShmTransport::disconnect(std::int32_t peer) {
  if (!matcher_.disconnect(peer)) return;
  if (peer == self_) self_ = -1;
  if (Link* link = find_link(peer)) close(*link, aborted(fmt::format("{} was disconnected", peers_.name(peer))));
}

/// The way to a peer, with the first message that takes it.
Status ShmTransport::open_ring(Link& link) {
  FOLDCAST_ASSIGN(const UniqueFd memfd, allocate_ring());
  FOLDCAST_ASSIGN(link.out.ring, map_ring(memfd.get()));
  link.out.ring->writer = own_memory();
  const int descriptor = memfd.get();
  return link.out.socket.send("ring", {&descriptor, 1}, Deadline::after({}));
}

void ShmTransport::look_at_sockets() {
  woken_ = false;
  passes_ = 0;
  constexpr int kEvents = 32;
  epoll_event events[kEvents];
  // Who has come is heard before who has gone: what a peer sent before its end is to arrive.
  for (bool news = true; news;) {
    news = false;
    const int ready = ::epoll_wait(epoll_.get(), events, kEvents, 0);
    for (int i = 0; i < ready; ++i) news = news || events[i].data.fd == listener_.descriptor();
    if (news) accept_strangers();
    if (ready > 0 && !strangers_.empty()) greet_strangers();
    const auto is_ready = [&](const LocalSocket& socket) {
      return std::any_of(events, events + std::max(ready, 0),
                         [&](const epoll_event& event) { return event.data.fd == socket.descriptor(); });
    };
    for (auto& link : links_) {
      if (link && (is_ready(link->out.socket) || is_ready(link->in.socket))) hear(*link);
    }
    news = news || ready == kEvents;
  }
  for (auto& link : links_) {
    if (!link || !link->ended) continue;
    link->ended = false;
    while (receive_records(*link)) continue;
    fail(*link, gone());
  }
}

void ShmTransport::accept_strangers() {
  while (auto accepted = listener_.try_accept()) {
    if (!accepted->is_same_user()) {
      log().warn("ignored another user's connection to the messages within the node");
      continue;
    }
    // The longest silent one goes: peers speak at once.
    if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());
    if (epoll_add(epoll_, accepted->descriptor()).ok()) strangers_.push_back(std::move(*accepted));
  }
}

void ShmTransport::greet_strangers() {
  for (std::size_t i = 0; i < strangers_.size();) {
    auto message = strangers_[i].try_receive();
    if (message.ok() && !message->has_value()) {
      ++i;
      continue;
    }
    LocalSocket socket = std::move(strangers_[i]);
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
    Hello hello;
    if (!message.ok() || (*message)->bytes.size() != sizeof hello) continue;
    std::memcpy(&hello, (*message)->bytes.data(), sizeof hello);
    if (hello.magic != Hello::kMagic) continue;
    const std::int32_t peer = peers_.find_or_add(hello.identity);
    if (peer < 0 || peer == self_) continue;
    Link& from = link(peer);
    if (from.in.socket.descriptor() >= 0) continue;
    from.in.socket = std::move(socket);
    from.in.trusted = hello.token == token_;
  }
}

void ShmTransport::hear(Link& link) {
  for (LocalSocket* socket : {&link.out.socket, &link.in.socket}) {
    while (socket->descriptor() >= 0) {
      auto message = socket->try_receive();
      if (!message.ok()) {
        *socket = LocalSocket();
        link.ended = true;
        break;
      }
      if (!message->has_value()) break;
      if (socket == &link.in.socket && !(*message)->descriptors.empty()) {
        take_ring(link, (*message)->descriptors.front());
      }
    }
  }
}

void ShmTransport::take_ring(Link& link, const UniqueFd& memfd) {
  if (link.in.ring) return;
  auto ring = map_ring(memfd.get());
  if (!ring.ok()) return fail(link, ring.status());
  link.in.ring = *std::move(ring);
  link.in.ring->reader = own_memory();
  link.in.ring->reader_is_there.store(true, std::memory_order_release);
}

/// `why` as in PeerTable::fail().
void ShmTransport::fail(Link& link, Status why) {
  if (peers_.failed(link.peer)) return;
  matcher_.fail_peer(link.peer, std::move(why));
  close(link, peers_.failure(link.peer));
}

/// Ends everything with the peer. What it has claimed and not copied yet may take until it has: but not for long, and
/// not at all where it is dead.
void ShmTransport::close(Link& link, const Status& why) {
  for (const Pending& message : link.out.pending) {
    if (message.kind != RecordKind::kCancel) completions_.push(message.cookie, why);
  }
  link.out.pending.clear();
  const Deadline deadline = stop_deadline();
  for (std::uint32_t index = 0; index < RingMemory::kTransfers; ++index) {
    if ((link.out.busy >> index & 1) != 0 && link.out.sending[index].open) end_send(link, index, why, deadline);
    if ((link.in.busy >> index & 1) != 0) end_receive(link, index, why, deadline);
  }
  // Who sleeps is woken by the end of the sockets.
  std::erase(unsettled_, &link);
  link.unsettled = false;
  // Messages that wait for their receives may still hold transfers of the ring: its memory stays.
  link.out = Outgoing();
  link.in.socket = LocalSocket();
}

void ShmTransport::cancel(std::uint32_t communicator) {
  matcher_.cancel(communicator);
  const Deadline deadline = stop_deadline();
  const Status cancelled = aborted(fmt::format("communicator {} was cancelled", communicator));
  for (auto& link : links_) {
    if (!link) continue;
    std::erase_if(link->out.pending, [&](const Pending& message) {
      const bool doomed = message.kind != RecordKind::kCancel && message.call.key.communicator == communicator;
      if (doomed) completions_.push(message.cookie, cancelled);
      return doomed;
    });
    bool offered = false;
    for (std::uint32_t index = 0; index < RingMemory::kTransfers; ++index) {
      const Sending& sending = link->out.sending[index];
      if ((link->out.busy >> index & 1) != 0 && sending.open && sending.communicator == communicator) {
        end_send(*link, index, cancelled, deadline);
        offered = true;
      }
      if ((link->in.busy >> index & 1) != 0 && link->in.receiving[index].arrival.key.communicator == communicator) {
        end_receive(*link, index, cancelled, deadline);
      }
    }
    if (!offered) continue;
    Pending word{.kind = RecordKind::kCancel, .call = {}, .cookie = 0};
    word.call.key.communicator = communicator;
    link->out.pending.push_back(word);
    send_pending(*link);
  }
  settle();
}

void ShmTransport::wake(Link& link) {
  const auto knock = [](LocalSocket& socket, std::atomic<std::uint8_t>& asleep) {
    if (asleep.load(std::memory_order_relaxed) == 0 || asleep.exchange(0, std::memory_order_acq_rel) == 0) return;
    // A socket that is full of knocks has woken it already.
    if (socket.descriptor() >= 0) (void)socket.send("wake", {}, Deadline::after({})).ok();
  };
  if (link.out.ring) knock(link.out.socket, link.out.ring->reader_asleep);
  if (link.in.ring) knock(link.in.socket, link.in.ring->writer_asleep);
}

/// Something was stored that the peer may wait for. As in the node group, the fence that makes sure it is seen comes
/// later, with settle(): by then the store has left this core anyway.
void ShmTransport::signal(Link& link) {
  wake(link);
  if (link.unsettled) return;
  link.unsettled = true;
  unsettled_.push_back(&link);
}

void ShmTransport::settle() {
  if (unsettled_.empty()) return;
  // Pairs with the fence in arm().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (Link* link : unsettled_) {
    link->unsettled = false;
    wake(*link);
  }
  unsettled_.clear();
}

void ShmTransport::disarm() {
  if (!armed_) return;
  armed_ = false;
  for (auto& link : links_) {
    if (!link) continue;
    if (link->in.ring) link->in.ring->reader_asleep.store(0, std::memory_order_relaxed);
    if (link->out.ring) link->out.ring->writer_asleep.store(0, std::memory_order_relaxed);
  }
}

bool ShmTransport::arm() {
  settle();
  if (!completions_.empty()) return false;
  armed_ = true;
  for (auto& link : links_) {
    if (!link) continue;
    if (link->in.ring) link->in.ring->reader_asleep.store(1, std::memory_order_relaxed);
    const bool waits = link->out.busy != 0 || !link->out.pending.empty();
    if (link->out.ring && waits) link->out.ring->writer_asleep.store(1, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool moved = progress();
  settle();
  if (!moved && completions_.empty()) {
    woken_ = true;  // when it is called again, something has happened
    return true;
  }
  disarm();
  return false;
}

}  // namespace foldcast::transports
