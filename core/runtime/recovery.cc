#include "core/runtime/recovery.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/epoll.h"
#include "core/base/log.h"
#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/builder.h"

namespace foldcast::runtime {

using schedule::Space;

namespace {

constexpr std::size_t kMostCalls = 256;
/// Enough for any datatype, so that no element is cut in two.
constexpr std::uint64_t kUnit = 64;
constexpr int kMostPatience = 8;  ///< times the first

/// What the members do among themselves: calls of their own numbers, which depend on nothing but where they are.
enum class Talk : std::uint64_t { kAgree = 1, kPatch = 2, kData = 3, kReturn = 4 };
constexpr std::uint64_t number_of(Talk talk, std::uint64_t of) { return static_cast<std::uint64_t>(talk) << 56 | of; }

/// The tree is at fault, not the call.
bool is_recoverable(const Status& status) {
  switch (status.code()) {
    case Code::kMismatch:
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      return false;
    default:
      return true;
  }
}

Signature numbers(ReduceOp op, std::uint64_t count) {
  return {Collective::kAllReduce, Datatype::kUint64, op, WireFormat::kExact, 0, count};
}

Signature message_of(std::uint64_t bytes) {
  return {Collective::kSendRecv, Datatype::kUint8, ReduceOp::kSum, WireFormat::kExact, 0, bytes};
}

}  // namespace

Result<std::unique_ptr<RecoveringGroup>> RecoveringGroup::create(Executor& executor, RecoverySetup setup,
                                                                 std::unique_ptr<offload::OffloadGroup> tree) {
  std::unique_ptr<RecoveringGroup> made(new RecoveringGroup(executor, std::move(setup)));
  const GroupCaps& caps = made->setup_.caps;
  FOLDCAST_CHECK(caps.slots > 0 && caps.fragment_bytes >= kUnit, "a tree takes fragments");
  made->fragment_bytes_ = caps.fragment_bytes / kUnit * kUnit;
  made->slots_.resize(caps.slots * made->fragment_bytes_);
  made->slot_bytes_.resize(caps.slots);
  made->standing_.resize(made->size());
  made->batch_.resize(std::min<std::size_t>(caps.slots, 64));
  FOLDCAST_ASSIGN(made->epoll_, make_epoll());
  FOLDCAST_RETURN_IF_ERROR(made->take(std::move(tree)));
  return made;
}

RecoveringGroup::~RecoveringGroup() {
  close();
  if (joiner_.joinable()) joiner_.join();
}

void RecoveringGroup::close() {
  cancel(setup_.endpoints.communicator);
  for (const Deadline deadline = Deadline::after(std::chrono::seconds(1)); !ended() && !deadline.passed();) {
    executor_.progress();
  }
  executor_.forget(setup_.endpoints.communicator);
}

Status RecoveringGroup::take(std::unique_ptr<offload::OffloadGroup> tree) {
  if (tree->descriptor() >= 0) FOLDCAST_RETURN_IF_ERROR(epoll_add(epoll_, tree->descriptor()));
  tree_ = std::move(tree);
  state_ = State::kTree;
  return ok_status();
}

void RecoveringGroup::drop_tree() {
  if (!tree_) return;
  if (tree_->descriptor() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, tree_->descriptor(), nullptr);
  tree_.reset();
}

std::string RecoveringGroup::news() const {
  if (counters_.losses == 0) return {};
  std::string text = fmt::format("lost {} times, the last time because {}; {} calls took the host path",
                                 counters_.losses, lost_because_, counters_.host_calls);
  if (state_ == State::kTree) return text + fmt::format("; back on the tree since attempt {}", attempt_);
  if (attempt_ == 0 || joining_.load(std::memory_order_acquire) || not_rejoined_because_.empty()) return text;
  return text + fmt::format("; attempt {} to join it again failed: {}", attempt_, not_rejoined_because_);
}

Posted RecoveringGroup::post(const EngineCall& call, std::uint64_t cookie) {
  if (state_ == State::kDead) {
    completions_.push(cookie, dead_);
    return Posted::kAccepted;
  }
  if (calls_.size() + completions_.size() >= kMostCalls) return Posted::kRetry;
  Call added{.call = call, .cookie = cookie, .first = next_fragment_};
  if (call.verb == Verb::kAllReduce) added.bytes = call.count * size_of(call.signature.dtype);
  added.fragments = std::max<std::uint64_t>(1, (added.bytes + fragment_bytes_ - 1) / fragment_bytes_);
  next_fragment_ += added.fragments;
  calls_.push_back(added);
  if (state_ == State::kTree) {
    feed_tree();
  } else {
    unpolled_ = true;
  }
  return Posted::kAccepted;
}

std::size_t RecoveringGroup::poll(std::span<Completion> out) {
  unpolled_ = false;
  if (state_ == State::kTree) poll_tree();
  advance();
  return completions_.pop(out);
}

bool RecoveringGroup::arm() {
  if (!completions_.empty() || unpolled_) return false;
  return state_ != State::kTree || tree_->arm();
}

/// One step after the other as far as it goes.
void RecoveringGroup::advance() {
  if (state_ == State::kTree && heard_epoch_ >= epoch_) lose(peer_failed("another member has lost it"));
  if (state_ == State::kAgreeing && ended() && state_ != State::kDead) patch();
  if (state_ == State::kPatching && ended() && state_ != State::kDead) resume();
  if (state_ == State::kHost) run_on_host();
  if (state_ == State::kHost) try_to_return();
}

// The tree.

RecoveringGroup::Range RecoveringGroup::range_of(const Call& call, std::uint64_t fragment) const {
  const std::uint64_t offset = (fragment - call.first) * fragment_bytes_;
  return {offset, std::min(fragment_bytes_, call.bytes - offset)};
}

void RecoveringGroup::feed_tree() {
  while (fed_ < next_fragment_ && fed_ - received_ < setup_.caps.slots) {
    const Call& call = calls_[fed_call_];
    EngineCall part = call.call;
    if (call.call.verb == Verb::kAllReduce) {
      const Range range = range_of(call, fed_);
      part.input = call.call.input == nullptr ? nullptr : call.call.input + range.offset;
      part.output = slot(fed_);
      part.count = range.bytes / size_of(call.call.signature.dtype);
    }
    if (tree_->post(part, fed_) == Posted::kRetry) return;
    if (++fed_ == call.first + call.fragments) ++fed_call_;
  }
}

void RecoveringGroup::poll_tree() {
  for (;;) {
    const std::size_t got = tree_->poll(batch_);
    for (std::size_t i = 0; i < got && state_ == State::kTree; ++i) on_fragment(batch_[i]);
    if (state_ != State::kTree) return;
    feed_tree();
    if (got < batch_.size()) return;
  }
}

/// They come in the order in which they were fed.
void RecoveringGroup::on_fragment(Completion& completion) {
  if (!completion.status.ok()) {
    return is_recoverable(completion.status) ? lose(completion.status) : die(completion.status);
  }
  FOLDCAST_CHECK(completion.cookie == received_, "a tree's fragments come back in order");
  const Call& call = calls_.front();
  const Range range = range_of(call, received_);
  slot_bytes_[received_ % setup_.caps.slots] = range.bytes;
  if (range.bytes > 0) std::memcpy(call.call.output + range.offset, slot(received_), range.bytes);
  ++received_;
  complete_received();
}

void RecoveringGroup::complete_received() {
  while (!calls_.empty() && calls_.front().first + calls_.front().fragments <= received_) {
    completions_.push(calls_.front().cookie);
    calls_.pop_front();
    if (fed_call_ > 0) --fed_call_;
  }
}

// Losing it.

void RecoveringGroup::lose(const Status& why) {
  lost_because_ = why.message();
  ++counters_.losses;
  // One line for all: the others say it to whoever asks.
  if (self() == 0) log().warn("{}: {}; its calls go on over the host path", setup_.name, lost_because_);
  drop_tree();
  setup_.tell(std::uint64_t{epoch_} << 1);
  agree();
}

void RecoveringGroup::hear(std::uint64_t value) {
  const auto number = static_cast<std::uint32_t>(value >> 1);
  std::uint32_t& known = (value & 1) != 0 ? wanted_attempt_ : heard_epoch_;
  known = std::max(known, number);
  unpolled_ = true;
  executor_.ring(*this);
}

void RecoveringGroup::agree() {
  state_ = State::kAgreeing;
  std::fill(standing_.begin(), standing_.end(), 0);
  standing_[self()] = received_ + 1;
  Binding binding;
  binding.input.data = binding.output.data = reinterpret_cast<std::byte*>(standing_.data());
  binding.count = standing_.size();
  binding.signature = numbers(ReduceOp::kMax, binding.count);
  binding.sequence = number_of(Talk::kAgree, epoch_);
  launch(plan_for(standing_.size() * sizeof(std::uint64_t)), binding);
}

void RecoveringGroup::patch() {
  state_ = State::kPatching;
  const auto furthest = std::max_element(standing_.begin(), standing_.end());
  const auto holder = static_cast<std::int32_t>(furthest - standing_.begin());
  const std::uint64_t have = *furthest - 1;
  const auto talk = [&](std::int32_t peer, std::uint64_t fragment, std::byte* data, std::uint64_t bytes, bool sends) {
    Binding binding;
    (sends ? binding.input : binding.output).data = data;
    binding.count = bytes;
    binding.signature = message_of(bytes);
    binding.sequence = number_of(Talk::kPatch, fragment);
    counters_.patched_bytes += bytes;
    launch(message_to_or_from(peer, sends), binding);
  };
  if (holder == setup_.endpoints.rank) {
    for (std::uint32_t member = 0; member < size(); ++member) {
      for (std::uint64_t fragment = standing_[member] - 1; fragment < have; ++fragment) {
        talk(static_cast<std::int32_t>(member), fragment, slot(fragment), slot_bytes_[fragment % setup_.caps.slots],
             true);
      }
    }
    return;
  }
  std::size_t at = 0;
  for (std::uint64_t fragment = received_; fragment < have; ++fragment) {
    while (calls_[at].first + calls_[at].fragments <= fragment) ++at;
    const Range range = range_of(calls_[at], fragment);
    talk(holder, fragment, calls_[at].call.output + range.offset, range.bytes, false);
  }
  received_ = have;  // once the messages are here; until then nothing looks at it
}

void RecoveringGroup::resume() {
  fed_ = received_;
  fed_call_ = 0;
  complete_received();
  state_ = State::kHost;
  on_host_ = false;
  patience_ = setup_.patience;
  next_attempt_ = Clock::now() + patience_;
}

// The host path.

void RecoveringGroup::run_on_host() {
  if (on_host_) {
    if (!ended() || state_ == State::kDead) return;
    on_host_ = false;
    ++counters_.host_calls;
    received_ = calls_.front().first + calls_.front().fragments;
    complete_received();
    if (joined_[0] != 0 && joined_[0] == ~joined_[1]) {
      // Everybody has it, and everybody takes it with the next call.
      fed_ = received_;
      fed_call_ = 0;
      ++epoch_;
      ++counters_.returns;
      if (self() == 0) log().warn("{}: joined again; calls take it from now on", setup_.name);
      if (Status status = take(std::move(rejoined_)); !status.ok()) return die(status);
      return feed_tree();
    }
  }
  if (!calls_.empty()) start_on_host(calls_.front());
}

void RecoveringGroup::start_on_host(Call& call) {
  on_host_ = true;
  const std::uint64_t offset = std::min(call.bytes, (std::max(received_, call.first) - call.first) * fragment_bytes_);
  if (offset < call.bytes) {
    Binding binding;
    binding.input.data = const_cast<std::byte*>(call.call.input) + offset;
    binding.output.data = call.call.output + offset;
    binding.signature = call.call.signature;
    binding.signature.kind = Collective::kAllReduce;
    binding.count = (call.bytes - offset) / size_of(binding.signature.dtype);
    binding.sequence = number_of(Talk::kData, call.first);
    launch(plan_for(call.bytes - offset), binding);
  }
  const bool is_back = !joining_.load(std::memory_order_acquire) && rejoined_ != nullptr;
  offered_ = is_back ? attempt_ : 0;
  joined_ = {offered_, ~offered_};
  Binding binding;
  binding.input.data = binding.output.data = reinterpret_cast<std::byte*>(joined_.data());
  binding.count = joined_.size();
  binding.signature = numbers(ReduceOp::kMin, joined_.size());
  binding.sequence = number_of(Talk::kReturn, call.first);
  launch(plan_for(sizeof joined_), binding);
}

/// Member 0 says when. A try that fails costs the calls nothing: it is made beside them.
void RecoveringGroup::try_to_return() {
  // What was offered must be there if all take it.
  if (joining_.load(std::memory_order_acquire) || (on_host_ && offered_ != 0)) return;
  if (self() == 0 && Clock::now() >= next_attempt_) {
    wanted_attempt_ = attempt_ + 1;
    setup_.tell(std::uint64_t{wanted_attempt_} << 1 | 1);
    patience_ = std::min(2 * patience_, kMostPatience * setup_.patience);
    next_attempt_ = Clock::now() + patience_;
  }
  if (wanted_attempt_ > attempt_) start_join(wanted_attempt_);
}

void RecoveringGroup::start_join(std::uint32_t attempt) {
  if (joiner_.joinable()) joiner_.join();
  rejoined_.reset();
  attempt_ = attempt;
  ++counters_.attempts;
  joining_.store(true, std::memory_order_relaxed);
  joiner_ = std::thread([this, attempt] {
    auto made = setup_.join(attempt);
    not_rejoined_because_ = made.ok() ? std::string() : made.status().message();
    if (made.ok()) rejoined_ = *std::move(made);
    joining_.store(false, std::memory_order_release);
  });
}

/// The cheapest.
const select::Plan& RecoveringGroup::plan_for(std::uint64_t bytes) {
  const schedule::Algorithm* best = nullptr;
  double least = 0;
  for (const schedule::Algorithm& one : schedule::algorithms_of(Collective::kAllReduce)) {
    if (!std::holds_alternative<schedule::StageAlgorithm>(one.build)) continue;
    const double price = setup_.price(one.name, bytes);
    if (best != nullptr && price >= least) continue;
    best = &one;
    least = price;
  }
  const auto [entry, is_new] = plans_.try_emplace(best->name);
  select::Plan& plan = entry->second;
  if (!is_new) return plan;
  std::vector<std::int32_t> members(size());
  std::iota(members.begin(), members.end(), 0);
  schedule::Stage stage;
  stage.members = members;
  stage.self = setup_.endpoints.rank;
  stage.source = {Space::kInput, 0, 1, 1};
  stage.target = {Space::kOutput, 0, 1, 1};
  schedule::Builder builder(setup_.endpoints.rank);
  std::get<schedule::StageAlgorithm>(best->build)(builder, stage);
  plan.name = best->name;
  plan.pipelining = {1u << 20, 4};
  plan.set_schedule(builder.finish());
  return plan;
}

const select::Plan& RecoveringGroup::message_to_or_from(std::int32_t peer, bool sends) {
  const auto [entry, is_new] = message_plans_.try_emplace({peer, sends});
  if (is_new) entry->second = select::message_plan(setup_.endpoints.rank, peer, sends);
  return entry->second;
}

void RecoveringGroup::launch(const select::Plan& plan, const Binding& binding) {
  auto launched = executor_.launch(setup_.endpoints, plan, binding, this);
  if (!launched.ok()) return die(launched.status());
  running_.push_back(*launched);
  unpolled_ = unpolled_ || (*launched)->finished();
}

bool RecoveringGroup::ended() {
  for (const Execution* execution : running_) {
    if (!execution->finished()) return false;
  }
  Status worst;
  for (Execution* execution : std::exchange(running_, {})) {
    if (worst.ok()) worst = execution->status();
    executor_.release(execution);
  }
  if (!worst.ok() && state_ != State::kDead) die(worst.with_context(setup_.name + ", recovering from a lost tree"));
  return true;
}

void RecoveringGroup::die(const Status& why) {
  dead_ = why;
  state_ = State::kDead;
  drop_tree();
  for (const Call& call : calls_) completions_.push(call.cookie, why);
  calls_.clear();
}

/// The group serves one communicator.
void RecoveringGroup::cancel(std::uint32_t) {
  if (state_ == State::kDead) return;
  const Status why = aborted(setup_.name + ": the communicator was aborted");
  die(why);
  if (!running_.empty()) executor_.fail(setup_.endpoints.communicator, why);
}

}  // namespace foldcast::runtime
