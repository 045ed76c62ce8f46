#include "offload/client/client_machine.h"

#include <algorithm>
#include <utility>

#include "offload/protocol/data.h"

namespace foldcast::offload {
namespace {

/// Why a call can never be served; empty when it can.
Status check(const EngineCall& call) {
  if (call.verb == Verb::kBarrier) return ok_status();
  if (call.verb != Verb::kAllReduce) return unsupported("an aggregation tree offers all_reduce and barrier only");
  const auto& signature = call.signature;
  if (!is_defined(signature.dtype, signature.op)) {
    return invalid_argument("the datatype, the operation or their combination is unknown");
  }
  if (call.count > 0 && (call.input == nullptr || call.output == nullptr)) return invalid_argument("a null buffer");
  if (call.count > UINT64_MAX / size_of(signature.dtype)) {
    return invalid_argument(std::to_string(call.count) + " elements do not fit into memory");
  }
  return ok_status();
}

Signature wire_signature(const EngineCall& call) {
  Signature signature = call.signature;
  if (call.verb == Verb::kBarrier) {
    signature = {.kind = Collective::kBarrier};
  } else if (signature.is_any()) {
    signature.kind = Collective::kAllReduce;
    signature.count = call.count;
  }
  return on_wire(signature, call.key.sequence);
}

}  // namespace

ClientMachine::ClientMachine(std::uint32_t window, std::uint32_t fragment, std::chrono::milliseconds fragment_timeout,
                             std::string aggregator)
    : window_(window),
      fragment_(fragment),
      fragment_timeout_(fragment_timeout),
      aggregator_(std::move(aggregator)),
      calls_(kMaxCalls),
      slots_(window) {
  actions_.reserve(std::size_t{window} * 2);
}

bool ClientMachine::post(const EngineCall& call, std::uint64_t cookie, Time now) {
  if (!failure_.ok()) {
    completions_.push(cookie, failure_);
    return true;
  }
  if (Status status = check(call); !status.ok()) {
    completions_.push(cookie, status);
    return true;
  }
  // Unread completions count too, so that their queue is bounded.
  if (calls_used_ + completions_.size() >= kMaxCalls) return false;
  auto& slot = calls_[(calls_first_ + calls_used_++) % kMaxCalls];
  slot = {.cookie = cookie,
          .bytes = call.verb == Verb::kBarrier ? 0 : call.count * size_of(call.signature.dtype),
          .communicator = call.key.communicator,
          .input = call.input,
          .output = call.output,
          .wire = wire_signature(call)};
  pump(now);
  return true;
}

/// Sends up what the window allows. A call of no bytes is one fragment of no bytes: the others must hear of it too.
void ClientMachine::pump(Time now) {
  while (calls_issued_ < calls_used_ && next_index_ - oldest_index_ < window_) {
    const std::size_t position = (calls_first_ + calls_issued_) % kMaxCalls;
    auto& call = calls_[position];
    const auto s = static_cast<std::uint32_t>(next_index_ % window_);
    const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(fragment_, call.bytes - call.offset));
    std::byte* output = call.output == nullptr ? nullptr : call.output + call.offset;
    const std::byte* input = call.input == nullptr ? nullptr : call.input + call.offset;
    actions_.push_back({ClientAction::Kind::kReceive, s, bytes, next_index_, nullptr, output, call.wire});
    actions_.push_back({ClientAction::Kind::kSend, s, bytes, next_index_, input, nullptr, call.wire});
    slots_[s] = {2, bytes, position, now};
    call.open += 2;
    call.offset += bytes;
    ++next_index_;
    if (call.offset == call.bytes) ++calls_issued_;
  }
}

void ClientMachine::close_one(std::uint32_t s, Time now) {
  auto& slot = slots_[s];
  if (slot.open == 0) return;
  --calls_[slot.call].open;
  if (--slot.open > 0) return;
  while (oldest_index_ < next_index_ && slots_[oldest_index_ % window_].open == 0) ++oldest_index_;
  retire();
  pump(now);
}

/// Calls end in the order in which they were posted.
void ClientMachine::retire() {
  while (calls_issued_ > 0) {
    const auto& call = calls_[calls_first_];
    if (call.open > 0) return;
    completions_.push(call.cookie);
    calls_first_ = (calls_first_ + 1) % kMaxCalls;
    --calls_used_;
    --calls_issued_;
  }
}

void ClientMachine::on_sent(std::uint32_t slot, Time now) {
  if (failure_.ok()) close_one(slot, now);
}

void ClientMachine::on_result(std::uint32_t s, const Completion& result, Time now) {
  if (!failure_.ok()) return;
  // The transport has compared the signatures.
  if (result.bytes != slots_[s].bytes) {
    return fail(internal_error(aggregator_ + " sent a result of " + std::to_string(result.bytes) + " bytes where " +
                               std::to_string(slots_[s].bytes) + " went up"));
  }
  close_one(s, now);
}

void ClientMachine::fail(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  actions_.clear();
  for (; calls_used_ > 0; --calls_used_) {
    completions_.push(calls_[calls_first_].cookie, why);
    calls_first_ = (calls_first_ + 1) % kMaxCalls;
  }
  calls_issued_ = 0;
  oldest_index_ = next_index_;
}

void ClientMachine::on_time(Time now) {
  if (now < deadline()) return;
  const auto& call = calls_[slots_[oldest_index_ % window_].call];
  fail(timeout("no result of fragment " + std::to_string(oldest_index_) + " from " + aggregator_ + " within " +
               std::to_string(fragment_timeout_.count()) + " ms, in " + describe(call.wire)));
}

ClientMachine::Time ClientMachine::deadline() const {
  if (oldest_index_ == next_index_) return Time::max();
  return slots_[oldest_index_ % window_].since + fragment_timeout_;
}

bool ClientMachine::serves(std::uint32_t communicator) const {
  for (std::size_t i = 0; i < calls_used_; ++i) {
    if (calls_[(calls_first_ + i) % kMaxCalls].communicator == communicator) return true;
  }
  return false;
}

}  // namespace foldcast::offload
