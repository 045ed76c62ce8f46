// The control connections of a Daemon.

#include <sys/epoll.h>

#include <utility>

#include "offload/aggregator/daemon.h"

namespace foldcast::offload {
namespace {

/// A connection that joins nothing, or is told that it is over, is closed after this long.
constexpr std::chrono::milliseconds kLinkGrace{5000};
/// Control connections at a time; far above what the quota on groups lets in, far below the descriptors.
constexpr std::size_t kMaxLinks = 8192;

}  // namespace

std::uint64_t Daemon::add_link(std::unique_ptr<bootstrap::Channel> channel, Link link) {
  const std::uint64_t id = next_link_++;
  link.channel = std::move(channel);
  if (!watch(link.channel->descriptor(), link_tag(id)).ok()) return 0;
  links_.emplace(id, std::move(link));
  return id;
}

void Daemon::accept_links(Time now) {
  for (auto& channel : listener_->poll()) {
    if (links_.size() >= kMaxLinks) {
      ++totals_.rejects["too many connections"];
      continue;
    }
    const std::uint64_t id = add_link(std::move(channel), {.until = now + kLinkGrace});
    schedule(now + kLinkGrace);
    if (id != 0) serve_link(id, now);  // the join often came with the handshake's end
  }
}

void Daemon::serve_link(std::uint64_t id, Time now) {
  while (true) {
    const auto link = links_.find(id);
    if (link == links_.end()) return;
    auto bytes = link->second.channel->try_receive();
    if (!bytes.ok()) return lose_link(id, bytes.status());
    if (!bytes->has_value()) break;
    if (!link->second.closing) on_frame(id, **bytes, now);
  }
  write_watch(id);
}

void Daemon::on_frame(std::uint64_t id, const std::string& bytes, Time now) {
  auto frame = decode(bytes);
  auto& link = links_.at(id);
  if (link.group == 0) {
    if (!frame.ok()) return refuse(id, 0, frame.status(), "malformed");
    if (const auto* join = std::get_if<Join>(&*frame)) return on_join(id, *join, now);
    return refuse(id, 0, invalid_argument("a " + std::string(name_of(*frame)) + " frame before any join"), "malformed");
  }
  const auto group = groups_.find(link.group);
  if (group == groups_.end()) return;
  auto& machine = group->second.hosted->machine();
  if (frame.ok()) {
    machine.on_frame(link.party, *frame, now);
  } else {
    ++totals_.rejects["malformed"];
    machine.on_link_lost(link.party, frame.status());
  }
  touched_.push_back(group->first);
}

void Daemon::refuse(std::uint64_t id, std::uint32_t group, const Status& why, const std::string& category) {
  ++totals_.rejects[category];
  send(id, encode(Error{group, why.code(), why.message()}));
  close_link(id, std::chrono::steady_clock::now());
}

/// A frame that cannot even be queued (the other side has stopped reading) ends the connection: the next frame would
/// otherwise arrive without it.
void Daemon::send(std::uint64_t id, const std::string& bytes) {
  const auto link = links_.find(id);
  if (link == links_.end()) return;
  if (Status sent = link->second.channel->send(bytes); !sent.ok()) return lose_link(id, sent);
  write_watch(id);
}

void Daemon::lose_link(std::uint64_t id, const Status& why) {
  const auto link = links_.find(id);
  const auto group = groups_.find(link->second.group);
  if (group != groups_.end()) {
    const std::int32_t party = link->second.party;
    group->second.hosted->machine().on_link_lost(party, why);
    touched_.push_back(group->first);
    (party == kParent ? group->second.parent_link : group->second.child_links[party]) = 0;
  }
  drop_link(id);
}

/// Lets the other side read its last frame: closing at once, with its renewals unread, would reset the connection.
void Daemon::close_link(std::uint64_t id, Time now) {
  const auto link = links_.find(id);
  if (link == links_.end()) return;
  link->second.group = 0;
  link->second.closing = true;
  link->second.until = now + kLinkGrace;
  schedule(link->second.until);
}

void Daemon::drop_link(std::uint64_t id) { links_.erase(id); }

void Daemon::write_watch(std::uint64_t id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (link.channel->wants_write() == link.wants_write) return;
  link.wants_write = !link.wants_write;
  epoll_event event{};
  event.events = link.wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = link_tag(id);
  // Cannot fail: the descriptor was added with the link and is open.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.channel->descriptor(), &event);
}

}  // namespace foldcast::offload
