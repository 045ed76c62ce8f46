#include "offload/client/group.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/epoll.h"

namespace foldcast::offload {
namespace {

constexpr std::uint32_t kSendTag = 1u << 31;

}  // namespace

Result<std::unique_ptr<AggregatorGroup>> AggregatorGroup::create(GroupSetup setup) {
  FOLDCAST_ASSIGN(const auto peer,
                  setup.plane->transport().connect(setup.membership->grant()->address, setup.aggregator));
  auto channel = std::move(setup.channel);
  auto membership = *setup.membership;
  std::unique_ptr<AggregatorGroup> group(new AggregatorGroup(std::move(setup), peer));
  FOLDCAST_RETURN_IF_ERROR(group->open_descriptors());
  group->ticket_ = group->keeper_->keep(std::move(channel), std::move(membership), group->fate_);
  return group;
}

AggregatorGroup::AggregatorGroup(GroupSetup setup, std::int32_t peer)
    : plane_(std::move(setup.plane)),
      keeper_(std::move(setup.keeper)),
      fate_(std::move(setup.fate)),
      lane_(setup.lane),
      aggregator_(std::move(setup.aggregator)),
      path_(std::move(setup.path)),
      peer_(peer),
      caps_(setup.membership->grant()->caps),
      machine_(setup.membership->grant()->window, setup.membership->grant()->fragment, setup.fragment_timeout,
               aggregator_) {
  retry_.reserve(std::size_t{caps_.slots} * 2);
  port_ = plane_->attach(*this);
}

Status AggregatorGroup::open_descriptors() {
  FOLDCAST_ASSIGN(epoll_, make_epoll());
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_) return system_error("a timer for an offload group", errno);
  FOLDCAST_RETURN_IF_ERROR(epoll_add(epoll_, timer_.get()));
  FOLDCAST_RETURN_IF_ERROR(epoll_add(epoll_, fate_->bell()));
  const int transport = plane_->transport().descriptor();
  return transport >= 0 ? epoll_add(epoll_, transport) : ok_status();
}

AggregatorGroup::~AggregatorGroup() {
  const bool in_order = machine_.idle() && suspicion_.ok();
  if (!machine_.idle()) plane_->transport().cancel(lane_.group);
  plane_->detach(port_);
  if (ticket_ == 0) return;  // it ended before, and then all was given back and said
  keeper_->release(ticket_, in_order
                                ? ControlFrame(Leave{lane_.group})
                                : ControlFrame(Error{lane_.group, Code::kAborted, "left in the middle of a call"}));
}

Posted AggregatorGroup::post(const EngineCall& call, std::uint64_t cookie) {
  if (fate_->sealed() && machine_.failure().ok()) end(fate_->why());
  if (!machine_.post(call, cookie, Clock::now())) return Posted::kRetry;
  perform();
  return Posted::kAccepted;
}

std::size_t AggregatorGroup::poll(std::span<Completion> out) {
  armed_ = false;
  const auto now = Clock::now();  // one look at the clock serves the whole batch
  if (std::exchange(rung_, false)) fate_->hush();
  plane_->poll(port_, now);
  if (!retry_.empty()) perform();
  if (fate_->sealed() && !std::exchange(seal_heard_, true)) {
    fate_->hush();
    if (machine_.failure().ok()) end(fate_->why());
  }
  check_time(now);
  return machine_.take_completions(out);
}

void AggregatorGroup::on_completion(std::uint32_t tag, Completion& completion, Clock::time_point now) {
  if (!machine_.failure().ok()) return;  // what cancel() gave back
  if (!completion.status.ok()) {
    if (completion.status.code() == Code::kMismatch || completion.status.code() == Code::kResourceExhausted) {
      return end(completion.status.with_context(aggregator_));
    }
    if (suspicion_.ok()) {
      suspicion_ = completion.status.with_context(aggregator_);
      suspicion_until_ = now + kHearsay;
    }
    return;
  }
  if ((tag & kSendTag) != 0) {
    machine_.on_sent(tag & ~kSendTag, now);
  } else {
    machine_.on_result(tag, completion, now);
    if (!machine_.failure().ok()) end(machine_.failure());
  }
}

/// Runs in every group's poll for every group of the plane; one that may be asleep by now must hear that it has news.
void AggregatorGroup::on_batch_end(bool polling) {
  perform();
  if (polling || !armed_) return;
  if (!machine_.has_completions() && retry_.empty() && suspicion_.ok()) return;
  armed_ = false;
  rung_ = true;
  fate_->ring();
}

Posted AggregatorGroup::perform_one(const ClientAction& action) {
  EngineCall call;
  const bool send = action.kind == ClientAction::Kind::kSend;
  call.verb = send ? Verb::kSend : Verb::kRecv;
  call.peer = peer_;
  call.input = action.input;
  call.output = action.output;
  call.bytes = action.bytes;
  call.key = lane_.key(send ? Direction::kUp : Direction::kDown, action.index);
  call.signature = action.wire;
  return plane_->post(call, port_, send ? action.slot | kSendTag : action.slot);
}

void AggregatorGroup::perform() {
  // What had to wait goes first, so that the order stays.
  std::size_t done = 0;
  while (done < retry_.size() && perform_one(retry_[done]) == Posted::kAccepted) ++done;
  retry_.erase(retry_.begin(), retry_.begin() + static_cast<std::ptrdiff_t>(done));
  for (const auto& action : machine_.actions()) {
    if (!retry_.empty() || perform_one(action) == Posted::kRetry) retry_.push_back(action);
  }
  machine_.clear_actions();
}

AggregatorGroup::Clock::time_point AggregatorGroup::next_time() const {
  return std::min(machine_.deadline(), suspicion_until_);
}

void AggregatorGroup::check_time(Clock::time_point now) {
  if (machine_.failure().ok() && now >= suspicion_until_) end(suspicion_);
  if (machine_.failure().ok() && now >= machine_.deadline()) {
    machine_.on_time(now);
    end(machine_.failure());
  }
  // An expired timer stays readable until it is set again.
  if (now >= timer_at_) set_timer(machine_.failure().ok() ? next_time() : Clock::time_point::max());
}

bool AggregatorGroup::arm() {
  if (machine_.has_completions() || !retry_.empty()) return false;
  if (machine_.failure().ok()) {
    if (fate_->sealed()) return false;
    const auto next = next_time();
    if (next < timer_at_) set_timer(next);
  }
  armed_ = true;
  return plane_->transport().arm();
}

/// Set about once per time-out, not per message: an early expiry finds a later deadline and sets the timer anew.
void AggregatorGroup::set_timer(Clock::time_point at) {
  itimerspec spec{};
  if (at != Clock::time_point::max()) {
    const auto nanos =
        std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
    spec.it_value = {nanos / 1'000'000'000, nanos % 1'000'000'000};
  }
  // steady_clock is CLOCK_MONOTONIC here. Cannot fail: the descriptor is a timer and the value is in range.
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  timer_at_ = at;
}

/// Buffers first, then the completions that hand them back, then the news to the aggregator.
void AggregatorGroup::end(const Status& why) {
  plane_->transport().cancel(lane_.group);
  retry_.clear();
  machine_.fail(why);
  suspicion_until_ = Clock::time_point::max();
  if (ticket_ != 0) keeper_->release(std::exchange(ticket_, 0), Error{lane_.group, why.code(), why.message()});
}

void AggregatorGroup::cancel(std::uint32_t communicator) {
  if (!machine_.failure().ok()) return;
  if (communicator != lane_.group && !machine_.serves(communicator)) return;
  end(aborted("the call was aborted, and with it its place on " + aggregator_));
}

std::string AggregatorGroup::describe() const {
  return path_ + ", window " + std::to_string(caps_.slots) + " x " + std::to_string(caps_.fragment_bytes / 1024) +
         " KiB";
}

}  // namespace foldcast::offload
