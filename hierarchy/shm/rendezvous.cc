#include "hierarchy/shm/rendezvous.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "core/base/log.h"
#include "hierarchy/shm/doorbells.h"
#include "hierarchy/shm/rendezvous_messages.h"
#include "transports/shm/local_socket.h"

namespace foldcast::hierarchy {
namespace {

constexpr std::size_t kMaxStrangers = 64;  ///< connections that have not said who they are

std::string local_rank(std::size_t rank) { return "local rank " + std::to_string(rank); }

std::string milliseconds(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

/// Local rank 0: accepts the others, makes the segment, hands it out.
class Leader {
 public:
  Leader(const ShmOptions& options, const SegmentShape& shape, Bells bells)
      : options_(options),
        shape_(shape),
        bells_(bells),
        deadline_(Deadline::after(options.timeout)),
        members_(shape.size) {}

  Result<Meeting> run() {
    if (bells_ == Bells::kMake) {
      FOLDCAST_ASSIGN(members_[0].doorbell, Doorbells::make_one());
    }
    if (shape_.size > 1) {
      FOLDCAST_ASSIGN(listener_, transports::LocalSocket::listen(rendezvous_address(options_.name)));
    }
    Result<Meeting> made = make();
    const std::string end = made.ok() ? encode_notice(Notice::kReady) : encode_failure(made.status());
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      Member& member = members_[rank];
      if (!member.joined) continue;
      // A member that cannot hear the end dies of it by its own deadline; liveness is the control plane's business.
      Status sent = member.socket.send(end, {}, deadline_);
      if (!sent.ok()) log().debug("node group: {}: {}", local_rank(rank), sent.to_string());
    }
    if (made.ok()) made->segment->prefault();
    return made;
  }

 private:
  struct Member {
    bool joined = false;
    bool ready = false;
    transports::LocalSocket socket;
    UniqueFd doorbell;
  };

  Result<Meeting> make() {
    FOLDCAST_RETURN_IF_ERROR(gather());
    FOLDCAST_ASSIGN(UniqueFd memfd, Segment::allocate(shape_));
    Meeting meeting;
    FOLDCAST_ASSIGN(meeting.segment, Segment::map(memfd.get(), shape_));
    FOLDCAST_RETURN_IF_ERROR(meeting.segment->claim(memfd.get(), 0));
    FOLDCAST_RETURN_IF_ERROR(welcome(memfd.get()));
    FOLDCAST_RETURN_IF_ERROR(await_ready());
    if (bells_ == Bells::kMake) {
      for (Member& member : members_) meeting.doorbells.push_back(std::move(member.doorbell));
    }
    return meeting;
  }

  std::string missing(bool Member::*what) const {
    std::string ranks;
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      if (!(members_[rank].*what)) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    return ranks;
  }

  /// Sleeps until a socket has something; kTimeout names whom `what` is missing of.
  Status wait(bool Member::*what, const char* waited_for) {
    if (deadline_.passed()) {
      return timeout("node group of " + std::to_string(shape_.size) + ": local ranks " + missing(what) + " did not " +
                     waited_for + " within " + milliseconds(options_.timeout) +
                     "; check that they started on this node and still run");
    }
    std::vector<pollfd> sockets{{listener_.descriptor(), POLLIN, 0}};
    for (const transports::LocalSocket& stranger : strangers_) sockets.push_back({stranger.descriptor(), POLLIN, 0});
    for (const Member& member : members_) {
      if (member.joined) sockets.push_back({member.socket.descriptor(), POLLIN, 0});
    }
    (void)::poll(sockets.data(), sockets.size(), deadline_.poll_timeout());
    return ok_status();
  }

  Status gather() {
    for (;;) {
      accept_strangers();
      bool changed = false;
      for (std::size_t i = 0; i < strangers_.size();) {
        FOLDCAST_ASSIGN(const bool resolved, greet(strangers_[i]));
        changed = changed || resolved;
        if (resolved) {
          strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
      }
      FOLDCAST_RETURN_IF_ERROR(hear_members());
      const std::string absent = missing(&Member::joined);
      if (absent.empty()) return ok_status();
      if (changed) tell_waiting(absent);
      FOLDCAST_RETURN_IF_ERROR(wait(&Member::joined, "join"));
    }
  }

  void accept_strangers() {
    while (auto accepted = listener_.try_accept()) {
      if (!accepted->is_same_user()) {
        log().warn("node group: ignored a connection from another user");
        continue;
      }
      // The longest silent one goes: members speak at once.
      if (strangers_.size() == kMaxStrangers) strangers_.erase(strangers_.begin());
      strangers_.push_back(std::move(*accepted));
    }
  }

  /// True when the stranger became a member or can be forgotten. An error ends the group.
  Result<bool> greet(transports::LocalSocket& stranger) {
    auto message = stranger.try_receive();
    if (!message.ok()) return true;
    if (!message->has_value()) return false;
    auto hello = decode_hello((*message)->bytes, options_.name);
    const std::size_t bells = bells_ == Bells::kMake ? 1 : 0;
    if (!hello || (*message)->descriptors.size() != bells) {
      log().debug("node group: ignored a stranger's connection");
      return true;
    }
    if (Status fits = check(*hello); !fits.ok()) {
      (void)stranger.send(encode_failure(fits), {}, deadline_).ok();
      return fits;
    }
    Member& member = members_[hello->rank];
    member.joined = true;
    member.socket = std::move(stranger);
    if (bells != 0) member.doorbell = std::move((*message)->descriptors.front());
    return true;
  }

  Status check(const Hello& hello) const {
    auto differs = [&](const char* what, std::uint64_t here, std::uint64_t there) {
      return mismatch(std::string("node group: ") + what + " is " + std::to_string(here) + " on local rank 0, " +
                      std::to_string(there) + " on " + local_rank(hello.rank) + "; use the same settings on all ranks");
    };
    if (hello.size != shape_.size) return differs("size", shape_.size, hello.size);
    if (hello.slot_bytes != shape_.slot_bytes) return differs("slot_bytes", shape_.slot_bytes, hello.slot_bytes);
    if (hello.slots != shape_.slots) return differs("slots", shape_.slots, hello.slots);
    if (hello.rank == 0 || hello.rank >= shape_.size || members_[hello.rank].joined) {
      return invalid_argument("node group of " + std::to_string(shape_.size) + ": two processes are " +
                              local_rank(hello.rank) + "; each needs its own");
    }
    return ok_status();
  }

  void tell_waiting(const std::string& absent) {
    for (Member& member : members_) {
      // A lost update only makes a later error less precise.
      if (member.joined)
        (void)member.socket.send(encode_notice(Notice::kWaiting, absent), {}, Deadline::after({})).ok();
    }
  }

  /// Reads what joined members say: that they are ready, that they cannot, or their end.
  Status hear_members() {
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      Member& member = members_[rank];
      if (!member.joined || member.ready) continue;
      auto message = member.socket.try_receive();
      if (!message.ok()) {
        member.joined = false;
        return peer_failed("node group: " + local_rank(rank) +
                           " ended while the group was forming: " + message.status().message());
      }
      if (!message->has_value()) continue;
      auto notice = decode_notice((*message)->bytes);
      if (notice && notice->notice == Notice::kFailed) return notice->failure.with_context(local_rank(rank));
      member.ready = notice && notice->notice == Notice::kReady;
    }
    return ok_status();
  }

  Status welcome(int memfd) {
    std::vector<int> descriptors{memfd};
    for (const Member& member : members_) {
      if (bells_ == Bells::kMake) descriptors.push_back(member.doorbell.get());
    }
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      for (std::size_t sent = 0; sent < descriptors.size(); sent += transports::LocalSocket::kMaxDescriptors) {
        auto batch = std::span<const int>(descriptors).subspan(sent);
        batch = batch.first(std::min(batch.size(), transports::LocalSocket::kMaxDescriptors));
        Status status = members_[rank].socket.send(encode_notice(Notice::kWelcome), batch, deadline_);
        if (!status.ok()) return status.with_context("node group: " + local_rank(rank));
      }
    }
    return ok_status();
  }

  Status await_ready() {
    for (;;) {
      FOLDCAST_RETURN_IF_ERROR(hear_members());
      if (missing(&Member::ready).empty()) return ok_status();
      FOLDCAST_RETURN_IF_ERROR(wait(&Member::ready, "map the shared segment"));
    }
  }

  const ShmOptions& options_;
  const SegmentShape& shape_;
  Bells bells_;
  Deadline deadline_;
  transports::LocalSocket listener_;
  std::vector<Member> members_;
  std::vector<transports::LocalSocket> strangers_;
};

/// Any other local rank.
class Follower {
 public:
  Follower(const ShmOptions& options, const SegmentShape& shape, Bells bells)
      : options_(options), shape_(shape), bells_(bells), deadline_(Deadline::after(options.timeout)) {}

  Result<Meeting> run() {
    FOLDCAST_RETURN_IF_ERROR(connect());
    const auto rank = static_cast<std::uint32_t>(options_.rank);
    FOLDCAST_RETURN_IF_ERROR(say_hello(rank));
    std::vector<UniqueFd> descriptors;
    const std::size_t wanted = 1 + (bells_ == Bells::kMake ? shape_.size : 0);
    while (descriptors.size() < wanted) {
      FOLDCAST_ASSIGN(auto message, next(Notice::kWelcome));
      std::move(message.descriptors.begin(), message.descriptors.end(), std::back_inserter(descriptors));
    }
    Meeting meeting;
    Result<std::shared_ptr<Segment>> segment = take(descriptors.front().get(), rank);
    const Status sent =
        leader_.send(segment.ok() ? encode_notice(Notice::kReady) : encode_failure(segment.status()), {}, deadline_);
    if (!segment.ok()) return segment.status();
    if (!sent.ok()) return sent.with_context("local rank 0");
    FOLDCAST_RETURN_IF_ERROR(next(Notice::kReady).status());
    (*segment)->prefault();
    meeting.segment = std::move(*segment);
    descriptors.erase(descriptors.begin());
    meeting.doorbells = std::move(descriptors);
    return meeting;
  }

 private:
  Status say_hello(std::uint32_t rank) {
    UniqueFd doorbell;
    std::vector<int> descriptors;
    if (bells_ == Bells::kMake) {
      FOLDCAST_ASSIGN(doorbell, Doorbells::make_one());
      descriptors.push_back(doorbell.get());
    }
    const Status sent = leader_.send(encode_hello(rank, shape_, options_.name), descriptors, deadline_);
    return sent.with_context("local rank 0");
  }

  Result<std::shared_ptr<Segment>> take(int memfd, std::uint32_t rank) const {
    FOLDCAST_ASSIGN(std::shared_ptr<Segment> segment, Segment::map(memfd, shape_));
    FOLDCAST_RETURN_IF_ERROR(segment->claim(memfd, rank));
    return segment;
  }

  Status connect() {
    for (;;) {
      FOLDCAST_ASSIGN(auto connected, transports::LocalSocket::try_connect(rendezvous_address(options_.name)));
      if (connected) {
        leader_ = std::move(*connected);
        if (leader_.is_same_user()) return ok_status();
        return unavailable("the process at local rank 0's address runs as another user; run all ranks as one user");
      }
      if (deadline_.passed()) {
        return timeout(local_rank(static_cast<std::size_t>(options_.rank)) +
                       " found no local rank 0 of its node group within " + milliseconds(options_.timeout) +
                       "; check that it started on this node and in this network namespace");
      }
      // Nothing tells when an abstract address appears.
      (void)::poll(nullptr, 0, deadline_.poll_timeout(2));
    }
  }

  /// The leader's next message of that kind; its failures become ours.
  Result<transports::LocalMessage> next(Notice wanted) {
    for (;;) {
      auto received = leader_.try_receive();
      if (!received.ok()) return received.status().with_context("local rank 0 left while the node group was forming");
      if (!received->has_value()) {
        if (deadline_.passed()) return give_up();
        pollfd wait{leader_.descriptor(), POLLIN, 0};
        (void)::poll(&wait, 1, deadline_.poll_timeout());
        continue;
      }
      auto notice = decode_notice((*received)->bytes);
      if (!notice) return internal_error("local rank 0 speaks another version; run the same Foldcast on all ranks");
      if (notice->notice == Notice::kFailed) return notice->failure;
      if (notice->notice == Notice::kWaiting) missing_ = notice->text;
      if (notice->notice == wanted) return std::move(**received);
    }
  }

  /// kTimeout, which the leader hears as well: its own deadline may be a little later.
  Status give_up() {
    const std::string whom = missing_.empty() ? "local rank 0 to answer" : "local ranks " + missing_ + " to join";
    Status late =
        timeout("node group of " + std::to_string(shape_.size) + ": waited " + milliseconds(options_.timeout) +
                " for " + whom + "; check that they started on this node and still run");
    (void)leader_.send(encode_failure(late), {}, Deadline::after({})).ok();
    return late;
  }

  const ShmOptions& options_;
  const SegmentShape& shape_;
  Bells bells_;
  Deadline deadline_;
  transports::LocalSocket leader_;
  std::string missing_;
};

}  // namespace

std::string rendezvous_address(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (unsigned char byte : name) hash = (hash ^ byte) * 0x100000001b3;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string address = "foldcast-node-";
  for (int shift = 60; shift >= 0; shift -= 4) address += kDigits[hash >> shift & 15];
  return address;
}

Result<Meeting> meet(const ShmOptions& options, const SegmentShape& shape, Bells bells) {
  if (options.rank == 0) return Leader(options, shape, bells).run();
  return Follower(options, shape, bells).run();
}

}  // namespace foldcast::hierarchy
