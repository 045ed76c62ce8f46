#include "core/bootstrap/store_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "core/base/log.h"
#include "core/bootstrap/agreement.h"
#include "core/bootstrap/channel.h"
#include "core/bootstrap/roster.h"
#include "core/bootstrap/socket.h"
#include "core/bootstrap/store_messages.h"
#include "core/bootstrap/tcp_channel.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxStoredBytes = 256u << 20;
constexpr auto kJoinLimit = 5s;        // from the handshake to the join message
constexpr auto kDrainForPresent = 5s;  // how long rank 0 waits for the farewell of those that are connected
constexpr auto kDrainForAbsent = 1s;   // and for those that have not even come
constexpr int kMaxEvents = 64;
constexpr std::size_t kMaxStrangers = 64;         // connections that have not joined, beyond one of each rank
constexpr std::size_t kMaxErrorText = 64u << 10;  // an error that lists very many ranks must still fit a frame

struct Connection {
  std::unique_ptr<Channel> channel;
  int rank = -1;  ///< -1 until it joined
  Deadline join_by = Deadline::never();
  bool watches_write = false;
  bool is_done = false;  ///< to be closed once its queue is written
  std::string expelled;  ///< why we shut it down, if we did
};

struct WaitingGet {
  int rank = 0;
  std::uint32_t id = 0;
  std::string key;
  Deadline deadline = Deadline::never();
};

/// The thread's state: one loop over all connections. Errors on a connection surface where it is read, nowhere else, so
/// that sending to one rank never changes the list of connections.
class StoreLoop {
 public:
  StoreLoop(const StoreOptions& options, std::unique_ptr<ChannelListener> listener, UniqueFd epoll, int stop)
      : options_(options),
        listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        stop_(stop),
        roster_(options.size),
        agreements_(roster_, kMaxFrame - kFrameOverhead) {
    roster_[0].name = options.name;
  }

  Status prepare(UniqueFd local) {
    FOLDCAST_RETURN_IF_ERROR(watch(EPOLL_CTL_ADD, listener_->descriptor(), EPOLLIN));
    FOLDCAST_RETURN_IF_ERROR(watch(EPOLL_CTL_ADD, stop_, EPOLLIN));
    add(std::make_unique<TcpChannel>(std::move(local), "rank 0", kMaxFrame));
    return {};
  }

  void run() {
    while (!is_finished()) {
      epoll_event events[kMaxEvents];
      int count = ::epoll_wait(epoll_.get(), events, kMaxEvents, next_deadline().poll_timeout(1000));
      for (int i = 0; i < count; ++i) take_event(events[i].data.fd);
      expire();
      deliver_agreements();
    }
  }

 private:
  static constexpr std::uint32_t kMaxFrame = ChannelOptions{}.max_frame;
  static constexpr std::size_t kFrameOverhead = 64;

  Status watch(int operation, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) return system_error("epoll_ctl", errno);
    return {};
  }

  void add(std::unique_ptr<Channel> channel) {
    if (connections_.size() - connection_of_.size() >= static_cast<std::size_t>(roster_.size()) + kMaxStrangers) {
      log().debug("dropped {}: too many connections that do not join", channel->peer());
      return;  // a rank tries again
    }
    int fd = channel->descriptor();
    Connection connection;
    connection.channel = std::move(channel);
    connection.join_by = Deadline::after(kJoinLimit);
    if (auto status = watch(EPOLL_CTL_ADD, fd, EPOLLIN); status.ok()) {
      connections_.insert_or_assign(fd, std::move(connection));
    } else {
      log().warn("dropped {}: {}", connection.channel->peer(), status.message());
    }
  }

  void take_event(int fd) {
    if (fd == listener_->descriptor()) {
      for (auto& channel : listener_->poll()) add(std::move(channel));
    } else if (fd == stop_) {
      std::uint64_t ignored;
      (void)!::read(stop_, &ignored, sizeof ignored);
      stopped_at_ = Deadline::Clock::now();
    } else if (auto found = connections_.find(fd); found != connections_.end()) {
      pump(found->second);
    }
  }

  /// Reads all that a connection has, and closes it when it has ended.
  void pump(Connection& connection) {
    for (;;) {
      auto frame = connection.channel->try_receive();
      if (!frame.ok()) return close(connection, frame.status().message() + " without farewell");
      if (!*frame) break;
      auto message = decode_store_message(**frame);
      if (!message || !dispatch(connection, *message)) return close(connection, "it sent a malformed request");
    }
    if (connection.is_done && !connection.channel->wants_write()) return close(connection, {});
    refresh(connection);
  }

  void refresh(Connection& connection) {
    bool wants = connection.channel->wants_write();
    if (wants == connection.watches_write) return;
    std::uint32_t events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (watch(EPOLL_CTL_MOD, connection.channel->descriptor(), events).ok()) connection.watches_write = wants;
  }

  void close(Connection& connection, const std::string& reason) {
    int rank = connection.rank;
    std::string why = connection.expelled.empty() ? reason : connection.expelled;
    connections_.erase(connection.channel->descriptor());
    if (rank < 0 || roster_[rank].state != RankState::kPresent) return;
    connection_of_.erase(rank);
    roster_[rank].state = RankState::kFailed;
    roster_[rank].note = why;
    log().info("{} failed: {}", roster_.describe(rank), roster_[rank].note);
    for (auto [other, fd] : connection_of_) send(other, failure_of(rank));
    agreements_.rank_gone(rank);
    fail_gets();
  }

  void send(int rank, const StoreMessage& message) {
    auto fd = connection_of_.find(rank);
    if (fd != connection_of_.end()) send(connections_.at(fd->second), message);
  }

  void send(Connection& connection, const StoreMessage& message) {
    auto status = connection.channel->send(encode(message));
    if (status.code() == Code::kResourceExhausted) {
      // It does not read. Its end is noticed, and told to the others, when the shutdown is read.
      connection.expelled = "it does not read what the store sends";
      (void)::shutdown(connection.channel->descriptor(), SHUT_RDWR);
    }
    refresh(connection);
  }

  bool dispatch(Connection& connection, const StoreMessage& message) {
    if (connection.is_done) return true;  // refused or gone: what else it says does not matter
    if (message.name.size() > kMaxNameBytes) return false;
    if (message.verb == StoreVerb::kJoin) return connection.rank < 0 && (join(connection, message), true);
    if (connection.rank < 0) return false;
    switch (message.verb) {
      case StoreVerb::kSet:
        set(connection.rank, message);
        return true;
      case StoreVerb::kGet:
        get(connection.rank, message);
        return true;
      case StoreVerb::kGather:
      case StoreVerb::kGatherAlive:
        return gather(connection.rank, message);
      case StoreVerb::kPublish:
        publish(connection.rank, message.text);
        return true;
      case StoreVerb::kFarewell:
        farewell(connection);
        return true;
      default:
        return false;
    }
  }

  // --- Who is here ---

  void join(Connection& connection, const StoreMessage& message) {
    int rank = message.rank;
    std::string name = printable(message.name);
    std::string who = fmt::format("rank {} ({})", rank, name);
    std::string refusal;
    if (message.size != roster_.size()) {
      refusal = fmt::format("{} was started with {} ranks, {} with {}; start all with the same number", who,
                            message.size, roster_.describe(0), roster_.size());
    } else if (!roster_.contains(rank)) {
      refusal = fmt::format("{} is not a rank of this job, which has ranks 0 to {}", who, roster_.size() - 1);
    } else if (roster_[rank].state == RankState::kPresent) {
      refusal = fmt::format("rank {} has already joined from {} ({}); two processes were given the same rank", rank,
                            connections_.at(connection_of_.at(rank)).channel->peer(), roster_[rank].name);
    } else if (roster_[rank].state == RankState::kFailed) {
      refusal = fmt::format("{} failed earlier in this job; restart the whole job", roster_.describe(rank));
    }
    if (!refusal.empty()) {
      log().warn("refused {} from {}: {}", who, connection.channel->peer(), refusal);
      bool is_absent = roster_.contains(rank) && roster_[rank].state == RankState::kAbsent;
      if (is_absent) roster_[rank].note = "refused: " + refusal;
      StoreMessage answer{.verb = StoreVerb::kRefused};
      answer.text = refusal;
      connection.is_done = true;
      return send(connection, answer);
    }
    if (roster_[rank].state == RankState::kLeft) {  // it starts its next store while others still use this one
      connection.is_done = true;
      return send(connection, {.verb = StoreVerb::kLater});
    }
    connection.rank = rank;
    connection.join_by = Deadline::never();
    connection_of_[rank] = connection.channel->descriptor();
    roster_[rank] = {RankState::kPresent, name, {}};
    StoreMessage joined{.verb = StoreVerb::kJoined};
    joined.name = options_.name;
    send(connection, joined);
    for (int other = 0; other < roster_.size(); ++other) {
      if (roster_[other].state == RankState::kFailed) send(connection, failure_of(other));
    }
    if (roster_[0].state == RankState::kLeft) send(connection, {.verb = StoreVerb::kHostLeft});
  }

  StoreMessage failure_of(int rank) const {
    StoreMessage message{.verb = StoreVerb::kFailed, .rank = rank};
    message.name = roster_[rank].name;
    message.text = roster_[rank].note;
    return message;
  }

  void farewell(Connection& connection) {
    int rank = connection.rank;
    send(connection, {.verb = StoreVerb::kGoodbye});
    connection.is_done = true;
    connection_of_.erase(rank);
    roster_[rank].state = RankState::kLeft;
    std::erase_if(gets_, [&](const WaitingGet& get) { return get.rank == rank; });
    agreements_.rank_gone(rank);
    if (rank != 0) return;
    for (auto [other, fd] : connection_of_) send(other, {.verb = StoreVerb::kHostLeft});
  }

  // --- Keys and agreements ---

  void answer(int rank, std::uint32_t id, const Status& status, std::vector<std::string> values = {}) {
    StoreMessage message{.verb = StoreVerb::kAnswer, .id = id, .code = status.code()};
    message.text = status.message().substr(0, kMaxErrorText);
    message.values = std::move(values);
    send(rank, message);
  }

  void set(int rank, const StoreMessage& message) {
    if (message.text.size() > kMaxFrame - kFrameOverhead) {  // it fits the request, but would not fit the answer to get
      return answer(rank, message.id,
                    invalid_argument(fmt::format("the value of key \"{}\" has {} bytes, over the limit of {}",
                                                 message.name, message.text.size(), kMaxFrame - kFrameOverhead)));
    }
    auto [entry, is_new] = values_.try_emplace(message.name);
    std::size_t before = is_new ? 0 : message.name.size() + entry->second.size();
    std::size_t after = stored_bytes_ - before + message.name.size() + message.text.size();
    if (after > kMaxStoredBytes) {
      if (is_new) values_.erase(entry);
      return answer(rank, message.id,
                    Status(Code::kResourceExhausted,
                           fmt::format("the store is full: it holds at most {} MiB", kMaxStoredBytes >> 20)));
    }
    stored_bytes_ = after;
    entry->second = message.text;
    answer(rank, message.id, {});
    std::erase_if(gets_, [&](const WaitingGet& get) {
      if (get.key == message.name) answer(get.rank, get.id, {}, {message.text});
      return get.key == message.name;
    });
  }

  void get(int rank, const StoreMessage& message) {
    if (auto found = values_.find(message.name); found != values_.end()) {
      return answer(rank, message.id, {}, {found->second});
    }
    gets_.push_back({rank, message.id, message.name, deadline_in_ms(message.time_ms)});
    fail_gets();
  }

  /// A key that is not there while a rank is dead will most likely never be: better to say so now than at the deadline.
  void fail_gets() {
    int failed = roster_.first_failed();
    if (failed < 0) return;
    for (const WaitingGet& get : std::exchange(gets_, {})) {
      answer(get.rank, get.id,
             peer_failed(fmt::format("waiting for key \"{}\": {} failed: {}", get.key, roster_.describe(failed),
                                     roster_[failed].note)));
    }
  }

  bool gather(int rank, const StoreMessage& message) {
    bool all_known = std::all_of(message.members.begin(), message.members.end(),
                                 [&](int member) { return roster_.contains(member); });
    if (!all_known || std::find(message.members.begin(), message.members.end(), rank) == message.members.end()) {
      return false;
    }
    agreements_.contribute({rank, message.id, message.name, message.members, message.text,
                            deadline_in_ms(message.time_ms), message.verb == StoreVerb::kGatherAlive});
    return true;
  }

  void publish(int rank, const std::string& text) {
    StoreMessage notice{.verb = StoreVerb::kNotice};
    notice.text = text;
    for (auto [other, fd] : connection_of_) {
      if (other != rank) send(other, notice);
    }
  }

  void deliver_agreements() {
    // Sending cannot decide anything else, so one pass is enough.
    for (const auto& [rank, request, decision] : agreements_.take_answers()) {
      answer(rank, request, decision->status(), decision->ok() ? decision->value() : std::vector<std::string>());
    }
  }

  // --- Time ---

  Deadline next_deadline() const {
    Deadline next = agreements_.next_deadline();
    auto consider = [&](Deadline deadline) {
      if (deadline.at() < next.at()) next = deadline;
    };
    for (const WaitingGet& get : gets_) consider(get.deadline);
    for (const auto& [fd, connection] : connections_) consider(connection.join_by);
    if (stopped_at_) consider(Deadline::after(50ms));
    return next;
  }

  void expire() {
    auto now = Deadline::Clock::now();
    agreements_.expire(now);
    std::erase_if(gets_, [&](const WaitingGet& get) {
      if (get.deadline.at() > now) return false;
      answer(get.rank, get.id, timeout(fmt::format("waiting for key \"{}\": no rank has set it", get.key)));
      return true;
    });
    std::erase_if(connections_, [&](const auto& entry) {
      const Connection& connection = entry.second;
      bool is_over = connection.rank < 0 && connection.join_by.at() <= now;
      if (is_over) log().debug("dropped {}: it did not join", connection.channel->peer());
      return is_over;
    });
  }

  bool is_finished() const {
    if (!stopped_at_) return false;
    auto waited = Deadline::Clock::now() - *stopped_at_;
    if (waited > kDrainForPresent) return true;
    bool has_present = roster_.count(RankState::kPresent) > 0;
    bool has_absent = roster_.count(RankState::kAbsent) > 0;
    return !has_present && (!has_absent || waited > kDrainForAbsent);
  }

  const StoreOptions options_;
  std::unique_ptr<ChannelListener> listener_;
  UniqueFd epoll_;
  int stop_;
  Roster roster_;
  AgreementTable agreements_;
  std::map<int, Connection> connections_;  ///< by descriptor
  std::map<int, int> connection_of_;       ///< rank to descriptor, of those present
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t stored_bytes_ = 0;
  std::vector<WaitingGet> gets_;
  std::optional<Deadline::Clock::time_point> stopped_at_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreOptions& options) {
  ChannelOptions channel;
  channel.key = options.key;
  channel.service = kStoreService;
  FOLDCAST_ASSIGN(auto listener, ChannelListener::listen({}, options.port, channel));
  std::unique_ptr<StoreServer> server(new StoreServer);
  server->owner_ = ::getpid();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return system_error("socketpair", errno);
  }
  server->local_end_.reset(ends[0]);
  UniqueFd served_end(ends[1]);
  server->stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!server->stop_ || !epoll) return system_error("eventfd or epoll_create1", errno);
  auto loop = std::make_unique<StoreLoop>(options, std::move(listener), std::move(epoll), server->stop_.get());
  FOLDCAST_RETURN_IF_ERROR(loop->prepare(std::move(served_end)));
  try {
    server->thread_ = std::thread([loop = std::move(loop)] { loop->run(); });
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, fmt::format("no thread for the store: {}", error.what()));
  }
  return server;
}

StoreServer::~StoreServer() {
  if (!thread_.joinable()) return;
  if (::getpid() != owner_) {
    thread_.detach();
    return;
  }
  std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace foldcast::bootstrap
