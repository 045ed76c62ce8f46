#include "offload/aggregator/hosted_group.h"

#include <new>
#include <utility>

#include "kernels/reducer.h"
#include "offload/protocol/data.h"

namespace foldcast::offload {

HostedGroup::HostedGroup(std::uint32_t number, GroupMachine machine, transports::Transport& transport,
                         DataCounters& counters)
    : number_(number), machine_(std::move(machine)), transport_(transport), counters_(counters) {}

HostedGroup::~HostedGroup() { stop(); }

/// Only place is made, nothing is touched: a slot that is never used costs no memory.
Status HostedGroup::allocate() {
  const std::uint64_t buffers = machine_.window() * machine_.buffers_per_slot();
  memory_.reset(new (std::nothrow) std::byte[buffers * machine_.fragment()]);
  if (memory_) {
    inputs_.resize(machine_.children());
    waiting_.reserve(buffers);
    return ok_status();
  }
  return resource_exhausted("no memory for " + std::to_string(machine_.memory()) + " bytes of slots");
}

Status HostedGroup::start(Time now) try {
  FOLDCAST_RETURN_IF_ERROR(allocate());
  for (std::size_t i = 0; i < machine_.children(); ++i) {
    const auto child = static_cast<std::int32_t>(i);
    FOLDCAST_ASSIGN(auto peer, transport_.connect(machine_.child_address(child), machine_.party_name(child)));
    child_peers_.push_back(peer);
  }
  if (!machine_.root()) {
    FOLDCAST_ASSIGN(parent_peer_, transport_.connect(machine_.parent_address(), machine_.party_name(kParent)));
  }
  machine_.started(now);
  perform();
  return ok_status();
} catch (const std::bad_alloc&) {
  return resource_exhausted("no memory for the bookkeeping of " + std::to_string(machine_.window()) + " slots");
}

/// Slot by slot: all landing buffers, the sum, and below the root the result.
std::byte* HostedGroup::buffer(SlotBuffer which, std::uint32_t slot, std::int32_t child) {
  const std::size_t children = machine_.children();
  std::size_t position = static_cast<std::size_t>(child);
  if (which == SlotBuffer::kSum) position = children;
  if (which == SlotBuffer::kResult) position = children + 1;
  return memory_.get() + (slot * machine_.buffers_per_slot() + position) * machine_.fragment();
}

void HostedGroup::reduce(const DataAction& action) {
  if (action.bytes == 0) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i] = buffer(SlotBuffer::kLanding, action.slot, static_cast<std::int32_t>(i));
  }
  kernels::reduce_n(action.wire.op, action.wire.dtype, buffer(SlotBuffer::kSum, action.slot, 0), inputs_,
                    action.bytes / size_of(action.wire.dtype));
}

Posted HostedGroup::perform_one(const DataAction& action) {
  if (action.kind == DataAction::Kind::kReduce) {
    reduce(action);
    return Posted::kAccepted;
  }
  const bool up = action.party == kParent;
  DataCookie cookie{number_, DataCookie::Kind::kSent, action.party, action.slot};
  EngineCall call;
  call.peer = up ? parent_peer_ : child_peers_[action.party];
  const Lane lane{machine_.group(), machine_.incarnation()};
  std::byte* bytes = buffer(action.buffer, action.slot, action.party);
  if (action.kind == DataAction::Kind::kSend) {
    call.verb = Verb::kSend;
    call.input = bytes;
    call.bytes = action.bytes;
    call.key = lane.key(up ? Direction::kUp : Direction::kDown, action.index);
    call.signature = action.wire;
    const Posted posted = transport_.post(call, cookie.pack());
    if (posted == Posted::kAccepted && !up) {
      ++counters_.results;
      counters_.bytes_out += action.bytes;
    }
    return posted;
  }
  cookie.kind = up ? DataCookie::Kind::kResult : DataCookie::Kind::kContribution;
  call.verb = Verb::kRecv;
  call.output = bytes;
  call.bytes = machine_.fragment();
  call.key = lane.key(up ? Direction::kDown : Direction::kUp, action.index);
  call.signature = Signature::any();
  return transport_.post(call, cookie.pack());
}

void HostedGroup::perform() {
  if (!machine_.active()) return;
  std::size_t done = 0;
  while (done < waiting_.size() && perform_one(waiting_[done]) == Posted::kAccepted) ++done;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
  for (const auto& action : machine_.slots().actions()) {
    // Only sends queue. A reduction takes no room and frees the landing buffers that the receives after it need; and a
    // receive that waited behind a send would come after the contribution it is for.
    const bool now = waiting_.empty() || action.kind != DataAction::Kind::kSend;
    if (!now || perform_one(action) == Posted::kRetry) waiting_.push_back(action);
  }
  machine_.slots().clear_actions();
}

void HostedGroup::on_completion(const DataCookie& cookie, const Completion& completion, Time now) {
  if (!machine_.active()) return;
  if (!completion.status.ok()) {
    const Code code = completion.status.code();
    if (code == Code::kMismatch || code == Code::kResourceExhausted) {
      return machine_.fail(completion.status.with_context(machine_.party_name(cookie.party)));
    }
    machine_.on_data_lost(cookie.party, completion.status, now);
    // A send that failed is over all the same. If it was to somebody who has left, the group goes on without it.
    if (cookie.kind == DataCookie::Kind::kSent) machine_.on_sent(cookie.slot);
    return perform();
  }
  switch (cookie.kind) {
    case DataCookie::Kind::kSent:
      machine_.on_sent(cookie.slot);
      break;
    case DataCookie::Kind::kResult:
      machine_.on_result(cookie.slot, completion.bytes, completion.signature);
      break;
    case DataCookie::Kind::kContribution:
      ++counters_.contributions;
      counters_.bytes_in += completion.bytes;
      machine_.on_contribution(cookie.party, cookie.slot, completion.bytes, completion.signature);
      break;
  }
  perform();
}

void HostedGroup::stop() {
  if (!memory_) return;
  transport_.cancel(machine_.group());
  memory_.reset();
}

}  // namespace foldcast::offload
