#include "core/bootstrap/store_client.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "core/base/epoll.h"
#include "core/bootstrap/tcp_channel.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr auto kServerGrace = 1s;  // after a deadline that the server should have kept
constexpr auto kFarewellLimit = 2s;
constexpr auto kJoinPause = 20ms;

Deadline later_by(Deadline deadline, std::chrono::milliseconds grace) {
  if (deadline.at() == Deadline::never().at()) return deadline;
  auto left = std::max<std::chrono::nanoseconds>(deadline.at() - Deadline::Clock::now(), 0ns);
  return Deadline::after(left + grace);
}

}  // namespace

StoreClient::StoreClient(const StoreOptions& options) : options_(options), owner_(::getpid()) {}

Result<std::unique_ptr<Store>> StoreClient::create(const StoreOptions& options, Deadline deadline) {
  std::unique_ptr<StoreClient> client(new StoreClient(options));
  FOLDCAST_RETURN_IF_ERROR(client->open_descriptors());
  if (options.rank == 0) {
    FOLDCAST_ASSIGN(client->server_, StoreServer::start(options));
  }
  for (;;) {
    Status status = client->join(deadline);
    if (status.ok()) break;
    client->channel_.reset();
    bool may_pass = status.code() == Code::kAborted || status.code() == Code::kPeerFailed;
    if (!may_pass || options.rank == 0) return status;
    if (deadline.passed()) return unavailable("could not join the job in time: " + status.message());
    std::this_thread::sleep_for(kJoinPause);
  }
  FOLDCAST_RETURN_IF_ERROR(epoll_add(client->epoll_, client->channel_->descriptor()));
  client->take_waiting_news();  // came with the answer to the join, so the descriptor does not show it
  return std::unique_ptr<Store>(std::move(client));
}

Status StoreClient::open_descriptors() {
  FOLDCAST_ASSIGN(epoll_, make_epoll());
  news_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news_) return system_error("eventfd", errno);
  return epoll_add(epoll_, news_.get());
}

Status StoreClient::join(Deadline deadline) {
  ChannelOptions channel;
  channel.key = options_.key;
  channel.service = kStoreService;
  if (server_) {
    channel_ = std::make_unique<TcpChannel>(server_->take_local_end(), "the store", channel.max_frame);
  } else {
    auto connected = Channel::connect(options_.host, options_.port, channel, deadline);
    if (!connected.ok()) return connected.status().with_context("joining the job's store at rank 0");
    channel_ = *std::move(connected);
  }
  StoreMessage request{.verb = StoreVerb::kJoin, .rank = options_.rank, .size = options_.size};
  request.name = options_.name.substr(0, kMaxNameBytes);
  FOLDCAST_RETURN_IF_ERROR(channel_->send(encode(request)));
  auto frame = channel_->receive(deadline);
  if (!frame.ok()) return frame.status().with_context("joining the job's store at rank 0");
  auto answer = decode_store_message(*frame);
  if (!answer) return unavailable("joining the job: rank 0 sent a malformed answer");
  switch (answer->verb) {
    case StoreVerb::kJoined:
      host_name_ = answer->name;
      return {};
    case StoreVerb::kRefused:
      return invalid_argument("joining the job: refused: " + answer->text);
    case StoreVerb::kLater:
      return aborted(fmt::format("rank {} has already left the job that {}:{} still serves", options_.rank,
                                 options_.host, options_.port));
    default:
      return unavailable("joining the job: rank 0 sent an unexpected answer");
  }
}

StoreClient::~StoreClient() {
  if (::getpid() != owner_) return;  // a forked child: the membership is the parent's
  if (!channel_ || !lost_.ok()) return;
  Deadline deadline = Deadline::after(kFarewellLimit);
  if (!channel_->send(encode({.verb = StoreVerb::kFarewell})).ok()) return;
  // Until the goodbye: closing earlier, with news unread, would reset the connection and could drop the farewell.
  for (;;) {
    auto frame = channel_->receive(deadline);
    if (!frame.ok()) return;
    auto message = decode_store_message(*frame);
    if (!message || message->verb == StoreVerb::kGoodbye) break;
  }
  channel_.reset();
}

Status StoreClient::set_by(std::string_view key, std::string_view value, Deadline deadline) {
  StoreMessage request{.verb = StoreVerb::kSet};
  request.name = key;
  request.text = value;
  auto answer = call(std::move(request), deadline);
  return answer.ok() ? Status() : answer.status();
}

Result<std::string> StoreClient::get(std::string_view key, Deadline deadline) {
  StoreMessage request{.verb = StoreVerb::kGet, .time_ms = time_left_ms(deadline)};
  request.name = key;
  FOLDCAST_ASSIGN(auto values, call(std::move(request), deadline));
  if (values.size() != 1) return lose(internal_error("rank 0 answered get with no value"));
  return std::move(values.front());
}

Result<std::vector<std::string>> StoreClient::gather(std::string_view name, std::span<const int> members,
                                                     std::string_view value, Deadline deadline) {
  return agree(StoreVerb::kGather, name, members, value, deadline);
}

Result<std::vector<std::optional<std::string>>> StoreClient::gather_alive(std::string_view name,
                                                                          std::span<const int> members,
                                                                          std::string_view value, Deadline deadline) {
  FOLDCAST_ASSIGN(const auto values, agree(StoreVerb::kGatherAlive, name, members, value, deadline));
  std::vector<std::optional<std::string>> alive;
  for (const auto& marked : values) {
    alive.push_back(marked.empty() ? std::nullopt : std::optional(marked.substr(1)));
  }
  return alive;
}

Status StoreClient::publish(std::string_view text) {
  if (!lost_.ok()) return lost_;
  StoreMessage message{.verb = StoreVerb::kPublish};
  message.text = text;
  return channel_->send(encode(message));
}

Result<std::vector<std::string>> StoreClient::agree(StoreVerb verb, std::string_view name, std::span<const int> members,
                                                    std::string_view value, Deadline deadline) {
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  bool is_valid = !sorted.empty() && sorted.front() >= 0 && sorted.back() < options_.size &&
                  std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                  std::binary_search(sorted.begin(), sorted.end(), options_.rank);
  if (!is_valid) {
    return invalid_argument(
        fmt::format("agreement \"{}\": its members must be different ranks from 0 to {}, rank {} among them", name,
                    options_.size - 1, options_.rank));
  }
  StoreMessage request{.verb = verb, .time_ms = time_left_ms(deadline)};
  request.name = name;
  request.text = value;
  request.members.assign(members.begin(), members.end());
  FOLDCAST_ASSIGN(auto values, call(std::move(request), deadline));
  if (values.size() != members.size()) return lose(internal_error("rank 0 answered gather with too few values"));
  return values;
}

Result<std::vector<std::string>> StoreClient::call(StoreMessage request, Deadline deadline) {
  if (!lost_.ok()) return lost_;
  if (request.name.size() > kMaxNameBytes) {
    return invalid_argument(fmt::format("the name \"{}...\" has {} bytes; the store takes {} at most",
                                        request.name.substr(0, 32), request.name.size(), kMaxNameBytes));
  }
  request.id = next_id_++;
  std::string what = fmt::format("rank 0 ({}) to answer about \"{}\"", host_name_, request.name);
  if (auto sent = channel_->send(encode(request)); sent.code() == Code::kInvalidArgument) return sent;
  // A failed send is not reported yet: what rank 0 said before it went may still be there to read.
  Deadline limit = later_by(deadline, kServerGrace);
  for (;;) {
    auto frame = channel_->receive(limit);
    if (frame.status().code() == Code::kTimeout) {
      // Whether the others got an answer is unknown. Only by being dead to them can the agreement hold.
      return lose(timeout("waiting for " + what));
    }
    if (!frame.ok()) return lose(frame.status());
    auto message = decode_store_message(*frame);
    if (!message) return lose(internal_error("rank 0 sent a malformed message"));
    if (message->verb != StoreVerb::kAnswer) {
      take_news(*message);
    } else if (message->id == request.id) {
      take_waiting_news();  // news read along with the answer would not wake who sleeps on the descriptor
      if (message->code != Code::kOk) return Status(message->code, message->text);
      return std::move(message->values);
    }
  }
}

void StoreClient::take_news(const StoreMessage& message) {
  if (message.verb == StoreVerb::kFailed) note_failure({message.rank, message.name, message.text});
  if (message.verb == StoreVerb::kHostLeft) host_left_ = true;
  if (message.verb != StoreVerb::kNotice) return;
  notices_.push_back(message.text);
  ring();
}

void StoreClient::note_failure(PeerFailure failure) {
  failures_.push_back(std::move(failure));
  ring();
}

void StoreClient::ring() {
  std::uint64_t one = 1;
  (void)!::write(news_.get(), &one, sizeof one);
}

Status StoreClient::lose(Status reason) {
  if (reason.code() == Code::kPeerFailed && host_left_) {
    reason = unavailable(fmt::format("rank 0 ({}) has left the job, and the store with it", host_name_));
  } else if (reason.code() == Code::kPeerFailed) {
    std::string why = "the connection to its store ended without farewell";
    reason = peer_failed(fmt::format("rank 0 ({}) failed: {}", host_name_, why));
    note_failure({0, host_name_, why});
  }
  lost_ = reason;
  channel_.reset();  // its descriptor would stay readable for ever
  return lost_;
}

void StoreClient::take_waiting_news() {
  while (lost_.ok()) {
    auto frame = channel_->try_receive();
    if (!frame.ok()) {
      (void)lose(frame.status());
      return;
    }
    if (!*frame) return;
    auto message = decode_store_message(**frame);
    if (!message) {
      (void)lose(internal_error("rank 0 sent a malformed message"));
      return;
    }
    take_news(*message);
  }
}

const std::vector<PeerFailure>& StoreClient::failures() {
  take_waiting_news();
  std::uint64_t ignored;
  (void)!::read(news_.get(), &ignored, sizeof ignored);
  return failures_;
}

std::vector<std::string> StoreClient::take_notices() {
  take_waiting_news();
  return std::exchange(notices_, {});
}

}  // namespace foldcast::bootstrap
