#include "transports/striped/striped.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/check.h"
#include "core/base/epoll.h"
#include "core/base/wire.h"

namespace foldcast::transports {
namespace {

constexpr std::size_t kCompletionsPerPoll = 64;
/// Parts begin on cache lines.
constexpr std::uint64_t kGranule = 64;
/// A rail that nothing is expected on is looked at every so many passes: looking costs a system call.
constexpr std::uint32_t kPassesPerRound = 64;

}  // namespace

Result<std::unique_ptr<StripedTransport>> StripedTransport::create(std::vector<std::unique_ptr<Transport>> rails) {
  FOLDCAST_CHECK(!rails.empty() && rails.size() <= kMostRails, "messages are striped over one to eight rails");
  std::unique_ptr<StripedTransport> made(new StripedTransport);
  made->parts_.resize(kCompletionsPerPoll);
  FOLDCAST_ASSIGN(made->epoll_, make_epoll());
  for (auto& rail : rails) {
    if (rail->descriptor() >= 0) FOLDCAST_RETURN_IF_ERROR(epoll_add(made->epoll_, rail->descriptor()));
    made->rails_.push_back({std::move(rail)});
  }
  return made;
}

void StripedTransport::set_speeds(std::span<const double> bytes_per_us, double message_us) {
  FOLDCAST_CHECK(bytes_per_us.size() == rails_.size(), "every rail has a speed");
  double all = 0;
  for (double speed : bytes_per_us) all += speed;
  FOLDCAST_CHECK(all > 0, "at least one rail is used");
  const auto fastest = std::max_element(bytes_per_us.begin(), bytes_per_us.end());
  fastest_ = static_cast<std::size_t>(fastest - bytes_per_us.begin());
  shares_.clear();
  double so_far = 0;
  for (double speed : bytes_per_us) shares_.push_back((so_far += speed) / all);
  // The bytes whose time on the fastest rail alone exceeds their time on all by what another message costs.
  cut_from_ = ~std::uint64_t{0};
  const double saved_per_byte = 1 / *fastest - 1 / all;
  if (saved_per_byte <= 0) return;
  const auto rails = static_cast<std::uint64_t>(rails_.size());
  cut_from_ = std::max(rails * kGranule, static_cast<std::uint64_t>(message_us / saved_per_byte));
}

std::uint64_t StripedTransport::end_of_part(std::uint64_t bytes, std::size_t rail) const {
  // Rails behind the last one that is used have a share of exactly 1, too: their parts are empty.
  if (shares_[rail] >= 1) return bytes;
  const auto end = static_cast<std::uint64_t>(static_cast<double>(bytes) * shares_[rail]);
  return std::min(bytes, end / kGranule * kGranule);
}

std::string StripedTransport::address() const {
  WireWriter writer;
  writer.put(static_cast<std::uint8_t>(rails_.size()));
  for (const Rail& rail : rails_) writer.put_bytes(rail.transport->address());
  return writer.take();
}

Result<std::int32_t> StripedTransport::connect(std::string_view address, std::string_view name) {
  WireReader reader(address);
  const auto theirs = reader.get<std::uint8_t>();
  if (theirs != rails_.size()) {
    return mismatch(fmt::format("{} has {} rails and this rank {}: FOLDCAST_RAILS must name as many on every node",
                                name, theirs, rails_.size()));
  }
  std::vector<std::int32_t> numbers;
  for (const Rail& rail : rails_) {
    const std::string one = reader.get_bytes();
    FOLDCAST_ASSIGN(const std::int32_t number, rail.transport->connect(one, name));
    numbers.push_back(number);
  }
  if (!reader.complete()) return internal_error(fmt::format("{} has a malformed address", name));
  const auto peer = static_cast<std::size_t>(numbers.front());
  if (peers_.size() <= peer) peers_.resize(peer + 1);
  peers_[peer] = std::move(numbers);
  return static_cast<std::int32_t>(peer);
}

void StripedTransport::disconnect(std::int32_t peer) {
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    rails_[rail].transport->disconnect(peers_[static_cast<std::size_t>(peer)][rail]);
  }
}

TransportCounters StripedTransport::counters() const {
  TransportCounters sum;
  for (const Rail& rail : rails_) {
    const TransportCounters one = rail.transport->counters();
    sum.messages_sent += one.messages_sent;
    sum.messages_received += one.messages_received;
    sum.bytes_sent += one.bytes_sent;
    sum.bytes_received += one.bytes_received;
    sum.dropped += one.dropped;
    sum.unexpected += one.unexpected;
  }
  return sum;
}

Posted StripedTransport::post(const EngineCall& call, std::uint64_t cookie) {
  if (!postponed_.empty()) return Posted::kRetry;
  if (free_.empty()) {
    free_.push_back(wholes_.size());
    wholes_.emplace_back();
  }
  const std::uint64_t number = free_.back();
  free_.pop_back();
  Whole& whole = wholes_[number];
  whole.communicator = call.key.communicator;
  whole.receives = call.verb == Verb::kRecv;
  whole.result = {.cookie = cookie, .status = {}, .bytes = 0, .signature = {}};
  whole.parts = 0;
  const bool cuts = call.bytes >= cut_from_;
  std::array<std::uint64_t, kMostRails + 1> ends{};
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    ends[rail + 1] = cuts ? end_of_part(call.bytes, rail) : rail < fastest_ ? 0 : call.bytes;
    whole.room[rail] = ends[rail + 1] - ends[rail];
    if (whole.room[rail] > 0) ++whole.parts;
  }
  whole.parts = std::max(whole.parts, 1u);  // no bytes are a message, too
  whole.left = whole.parts;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    const bool used = cuts ? whole.room[rail] > 0 : rail == fastest_;
    if (used) post_part(rail, call, ends[rail], ends[rail + 1], number);
  }
  return Posted::kAccepted;
}

void StripedTransport::post_part(std::size_t rail, EngineCall call, std::uint64_t first, std::uint64_t last,
                                 std::uint64_t whole) {
  const auto peer = static_cast<std::size_t>(call.peer);
  // A peer nobody connected: the rail knows what to say.
  if (call.peer >= 0 && peer < peers_.size() && !peers_[peer].empty()) call.peer = peers_[peer][rail];
  if (call.input != nullptr) call.input += first;
  if (call.output != nullptr) call.output += first;
  call.bytes = last - first;
  if (rails_[rail].transport->post(call, whole) == Posted::kRetry) {
    postponed_.push_back({rail, call, whole});
  } else {
    ++rails_[rail].outstanding;
  }
}

void StripedTransport::take(std::size_t rail, const Completion& part) {
  Whole& whole = wholes_[part.cookie];
  Completion& result = whole.result;
  Status status = part.status;
  if (status.ok() && whole.receives && whole.parts > 1 && part.bytes != whole.room[rail]) {
    status = mismatch(fmt::format("rail {} brought {} bytes of a message where {} were expected", rail, part.bytes,
                                  whole.room[rail]));
  }
  const bool first_failure = result.status.ok() && !status.ok();
  if (first_failure) result.status = status;
  if (status.ok()) result.signature = part.signature;
  result.bytes += part.bytes;
  const bool cancels = first_failure && whole.parts > 1;
  const std::uint32_t communicator = whole.communicator;
  if (--whole.left == 0) {
    completions_.push(std::move(result));
    free_.push_back(part.cookie);
  }
  if (cancels) cancel(communicator);
}

void StripedTransport::retry_postponed() {
  auto keep = postponed_.begin();
  for (const Postponed& part : postponed_) {
    if (rails_[part.rail].transport->post(part.call, part.cookie) == Posted::kRetry) {
      *keep++ = part;
    } else {
      ++rails_[part.rail].outstanding;
    }
  }
  postponed_.erase(keep, postponed_.end());
}

std::size_t StripedTransport::poll(std::span<Completion> out) {
  const bool looks_at_all = ++passes_ % kPassesPerRound == 0 ||
                            std::all_of(rails_.begin(), rails_.end(), [](auto& rail) { return rail.outstanding == 0; });
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    if (rails_[rail].outstanding == 0 && !looks_at_all) continue;
    const std::size_t got = rails_[rail].transport->poll(parts_);
    rails_[rail].outstanding -= static_cast<std::uint32_t>(got);
    for (std::size_t i = 0; i < got; ++i) take(rail, parts_[i]);
  }
  if (!postponed_.empty()) retry_postponed();
  return completions_.pop(out);
}

bool StripedTransport::arm() {
  if (!completions_.empty() || !postponed_.empty()) return false;
  if (!std::all_of(rails_.begin(), rails_.end(), [](auto& rail) { return rail.transport->arm(); })) return false;
  passes_ = kPassesPerRound - 1;  // whichever of them wakes the sleeper is looked at
  return true;
}

void StripedTransport::cancel(std::uint32_t communicator) {
  // What was never given to a rail ends here; its other parts end on theirs.
  const auto postponed = std::exchange(postponed_, {});
  for (const Postponed& part : postponed) {
    if (part.call.key.communicator != communicator) {
      postponed_.push_back(part);
      continue;
    }
    take(part.rail, {.cookie = part.cookie,
                     .status = aborted(fmt::format("communicator {} was cancelled", communicator)),
                     .bytes = 0,
                     .signature = {}});
  }
  for (const Rail& rail : rails_) rail.transport->cancel(communicator);
}

}  // namespace foldcast::transports
