#include "core/runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/reducer.h"
#include "kernels/wire_format.h"

namespace foldcast::runtime {

using schedule::Chunk;
using schedule::Step;
using schedule::StepKind;

namespace {

constexpr std::size_t kCompletionsPerPoll = 64;

/// Where a completion belongs: 16 bits of execution, 16 of fragment slot, 32 of step.
constexpr std::uint64_t cookie_of(std::uint32_t execution, std::uint32_t fragment, std::uint32_t step) {
  return std::uint64_t{execution} << 48 | std::uint64_t{fragment} << 32 | step;
}
constexpr std::size_t kMostExecutions = 1u << 16;
constexpr std::uint32_t kPassesPerRound = 1024;
/// More scratch memory than this is given back when a call needs less.
constexpr std::uint64_t kKeptScratch = 64u << 20;

constexpr std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

std::uint32_t own_block(const Binding& binding) { return static_cast<std::uint32_t>(binding.output.only_block); }

}  // namespace

Executor::Executor() : completions_(kCompletionsPerPoll) {}

void Executor::add_engine(Engine* engine) { engines_.push_back({engine, true}); }

void Executor::remove_engine(Engine* engine) {
  std::erase_if(engines_, [&](const Polled& polled) { return polled.engine == engine; });
  std::erase_if(lanes_, [&](const auto& entry) { return entry.first.first == engine; });
}

bool Executor::sleeps_on(int descriptor) const {
  return std::any_of(engines_.begin(), engines_.end(),
                     [&](const Polled& polled) { return polled.engine->descriptor() == descriptor; });
}

Executor::Lane& Executor::lane_of(const Execution& execution, std::uint32_t group, std::uint8_t lane) {
  return lanes_[{execution.endpoints_->groups[group], lane}];
}

Result<Execution*> Executor::launch(const Endpoints& endpoints, const select::Plan& plan, const Binding& binding) {
  FOLDCAST_RETURN_IF_ERROR(health(endpoints.communicator));
  if (idle_.empty()) {
    if (executions_.size() == kMostExecutions) {
      return resource_exhausted(fmt::format("{} calls are outstanding: wait for some of them", kMostExecutions));
    }
    executions_.push_back(std::make_unique<Execution>());
    executions_.back()->slot_ = static_cast<std::uint32_t>(executions_.size() - 1);
    idle_.push_back(executions_.back().get());
  }
  Execution& execution = *idle_.back();
  idle_.pop_back();
  execution.endpoints_ = &endpoints;
  execution.plan_ = &plan;
  execution.binding_ = binding;
  execution.status_ = ok_status();
  execution.finished_ = false;
  execution.outstanding_ = 0;
  execution.next_fragment_ = execution.fragments_done_ = 0;

  const std::uint64_t bytes = binding.count * binding.blocks * size_of(binding.signature.dtype);
  execution.fragments_ = 1;
  if (plan.divisible && bytes > plan.pipelining.fragment_bytes) {
    execution.fragments_ = (bytes + plan.pipelining.fragment_bytes - 1) / plan.pipelining.fragment_bytes;
  }
  const auto depth = static_cast<std::uint32_t>(std::min<std::uint64_t>(execution.fragments_, plan.pipelining.depth));
  execution.in_flight_.resize(depth);
  allocate(execution);
  execution.turns_.clear();
  for (const auto& use : execution.plan_->lanes) {
    Lane& lane = lane_of(execution, use.group, use.lane);
    execution.turns_.push_back({&lane, lane.allocated});
    lane.allocated += execution.fragments_ * use.steps;
  }
  for (std::uint32_t slot = 0; slot < depth; ++slot) start_fragment(execution, slot);
  drain_ready();
  return &execution;
}

/// Scratch and wire memory for each fragment in flight; kept for the next call that uses the execution.
void Executor::allocate(Execution& execution) {
  const Binding& binding = execution.binding_;
  const auto& schedule = execution.plan_->schedule;
  const std::uint64_t unit = Placement::scratch_elements(binding, execution.fragments_);
  const std::uint64_t scratch = rounded(unit * size_of(binding.signature.dtype) * schedule.scratch_units);
  std::uint64_t wire = 0;
  execution.wire_offsets_.clear();
  if (binding.signature.wire != WireFormat::kExact) {
    for (const Step& step : schedule.steps) {
      execution.wire_offsets_.push_back(wire);
      if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
      const Chunk& chunk = step.kind == StepKind::kSend ? step.a : step.target;
      const std::uint64_t most = schedule::cut(unit, chunk.span, chunk.of) + binding.blocks;
      wire += rounded(kernels::wire_bytes(binding.signature.wire, most));
    }
  }
  const std::size_t depth = execution.in_flight_.size();
  const std::uint64_t bytes = (scratch + wire) * depth;
  if (execution.scratch_.size() < bytes || execution.scratch_.size() > std::max(kKeptScratch, bytes)) {
    execution.scratch_ = std::vector<std::byte>(bytes);
  }
  for (std::size_t slot = 0; slot < depth; ++slot) {
    execution.in_flight_[slot].scratch = execution.scratch_.data() + (scratch + wire) * slot;
    execution.in_flight_[slot].wire = execution.in_flight_[slot].scratch + scratch;
  }
}

void Executor::release(Execution* execution) {
  FOLDCAST_CHECK(execution->finished_, "an execution is released after it has finished");
  idle_.push_back(execution);
}

void Executor::start_fragment(Execution& execution, std::uint32_t slot) {
  auto& fragment = execution.in_flight_[slot];
  const auto& plan = execution.plan_->schedule;
  fragment.index = static_cast<std::uint32_t>(execution.next_fragment_++);
  fragment.place = Placement(execution.binding_, fragment.index, execution.fragments_);
  fragment.left = static_cast<std::uint32_t>(plan.steps.size());
  fragment.pending = plan.dependences;
  fragment.posted.assign(plan.steps.size(), false);
  if (fragment.left == 0) return finish_fragment(execution, slot);
  // Last in, first out: push the roots backwards so that they are issued in program order.
  const auto& roots = execution.plan_->roots;
  for (auto root = roots.rbegin(); root != roots.rend(); ++root) {
    ready_.push_back({&execution, slot, *root});
  }
}

void Executor::drain_ready() {
  while (!ready_.empty()) {
    const StepRef ref = ready_.back();
    ready_.pop_back();
    if (!issue(ref)) retry_.push_back(ref);
  }
}

EngineCall Executor::call_of(const StepRef& ref) const {
  const Execution& execution = *ref.execution;
  const Step& step = execution.plan_->schedule.steps[ref.step];
  EngineCall call = step.kind == StepKind::kGroup ? group_call_of(ref) : message_of(ref);
  call.signature = execution.binding_.signature;
  call.key.communicator = execution.endpoints_->communicator;
  call.key.fragment = execution.in_flight_[ref.fragment].index;
  call.key.sequence = execution.binding_.sequence;
  return call;
}

EngineCall Executor::message_of(const StepRef& ref) const {
  const Execution& execution = *ref.execution;
  const auto& fragment = execution.in_flight_[ref.fragment];
  const Step& step = execution.plan_->schedule.steps[ref.step];
  const Signature& signature = execution.binding_.signature;
  const bool sends = step.kind == StepKind::kSend;
  const Stretch data = fragment.place.find(sends ? step.a : step.target, fragment.scratch);
  EngineCall call;
  call.verb = sends ? Verb::kSend : Verb::kRecv;
  call.peer = execution.endpoints_->peers[step.peer];
  call.key.tag = std::uint64_t{step.channel} << 32 | step.ordinal;
  call.bytes = data.elements * size_of(signature.dtype);
  std::byte* at = data.data;
  if (signature.wire != WireFormat::kExact) {
    call.bytes = kernels::wire_bytes(signature.wire, data.elements);
    at = fragment.wire + execution.wire_offsets_[ref.step];
    if (sends) {
      auto* values = reinterpret_cast<float*>(data.data);
      // What others get of a sum is what its owner keeps: else ranks would end with different bits.
      if (step.a.space == schedule::Space::kInput) {
        kernels::encode(signature.wire, at, values, data.elements);
      } else {
        kernels::encode_and_round(signature.wire, at, values, data.elements);
      }
    }
  }
  if (sends) {
    call.input = at;
  } else {
    call.output = at;
  }
  return call;
}

EngineCall Executor::group_call_of(const StepRef& ref) const {
  const Execution& execution = *ref.execution;
  const auto& fragment = execution.in_flight_[ref.fragment];
  const Step& step = execution.plan_->schedule.steps[ref.step];
  const Stretch source = fragment.place.find(step.a, fragment.scratch);
  const Stretch target = fragment.place.find(step.target, fragment.scratch);
  EngineCall call;
  call.verb = step.verb;
  call.lane = step.lane;
  call.owners = step.owners;
  call.peer = step.peer;
  call.input = source.data;
  call.output = target.data;
  call.count = target.elements;
  call.key.tag = ref.step;
  // Only a call that is a single step of its group has uneven blocks, see Selector.
  const BlockTable* table = execution.binding_.output.table;
  if (table != nullptr) call.cuts = table->offsets.data();
  return call;
}

Status Executor::take_message(const StepRef& ref, const Completion& completion) const {
  const Execution& execution = *ref.execution;
  const auto& fragment = execution.in_flight_[ref.fragment];
  const Step& step = execution.plan_->schedule.steps[ref.step];
  const Signature& signature = execution.binding_.signature;
  const Stretch data = fragment.place.find(step.target, fragment.scratch);
  const bool exact = signature.wire == WireFormat::kExact;
  const std::uint64_t expected =
      exact ? data.elements * size_of(signature.dtype) : kernels::wire_bytes(signature.wire, data.elements);
  if (completion.bytes != expected) {
    return mismatch(fmt::format("{} sent {} bytes where this rank expects {}: all ranks must pass the same counts",
                                execution.endpoints_->names[step.peer], completion.bytes, expected));
  }
  if (!exact) {
    kernels::decode(signature.wire, reinterpret_cast<float*>(data.data),
                    fragment.wire + execution.wire_offsets_[ref.step], data.elements);
  }
  return ok_status();
}

bool Executor::issue(const StepRef& ref) {
  Execution& execution = *ref.execution;
  auto& fragment = execution.in_flight_[ref.fragment];
  const Step& step = execution.plan_->schedule.steps[ref.step];
  const Signature& signature = execution.binding_.signature;
  switch (step.kind) {
    case StepKind::kSend:
    case StepKind::kRecv: {
      if (post(execution.endpoints_->routes[step.peer], ref) == Posted::kRetry) return false;
      fragment.posted[ref.step] = true;
      ++execution.outstanding_;
      return true;
    }
    case StepKind::kGroup:
      return issue_group(ref);
    case StepKind::kReduce: {
      const Stretch target = fragment.place.find(step.target, fragment.scratch);
      kernels::reduce(pairwise(signature.op), signature.dtype, target.data,
                      fragment.place.find(step.a, fragment.scratch).data,
                      fragment.place.find(step.b, fragment.scratch).data, target.elements);
      finish_step(ref);
      return true;
    }
    case StepKind::kCopy: {
      const Stretch target = fragment.place.find(step.target, fragment.scratch);
      const std::byte* from = fragment.place.find(step.a, fragment.scratch).data;
      const std::uint64_t bytes = target.elements * size_of(signature.dtype);
      if (target.data != from && bytes > 0) std::memcpy(target.data, from, bytes);
      finish_step(ref);
      return true;
    }
  }
  return true;
}

bool Executor::issue_group(const StepRef& ref) {
  Execution& execution = *ref.execution;
  auto& fragment = execution.in_flight_[ref.fragment];
  const Step& step = execution.plan_->schedule.steps[ref.step];
  const std::uint32_t use = execution.plan_->lane_of_step[ref.step];
  const std::uint64_t turn = execution.turns_[use].first +
                             std::uint64_t{fragment.index} * execution.plan_->lanes[use].steps +
                             execution.plan_->ordinal_of_step[ref.step];
  Lane& lane = *static_cast<Lane*>(execution.turns_[use].lane);
  if (turn != lane.next) {
    lane.waiting.emplace(turn, ref);
    return true;
  }
  Engine* engine = execution.endpoints_->groups[step.group];
  if (post(engine, ref) == Posted::kRetry) return false;
  fragment.posted[ref.step] = true;
  ++execution.outstanding_;
  ++lane.next;
  if (auto following = lane.waiting.find(lane.next); following != lane.waiting.end()) {
    ready_.push_back(following->second);
    lane.waiting.erase(following);
  }
  return true;
}

void Executor::finish_step(const StepRef& ref) {
  Execution& execution = *ref.execution;
  auto& fragment = execution.in_flight_[ref.fragment];
  const auto& plan = execution.plan_->schedule;
  fragment.posted[ref.step] = false;
  for (std::uint32_t i = plan.dependants_begin[ref.step]; i < plan.dependants_begin[ref.step + 1]; ++i) {
    const std::uint32_t dependant = plan.dependants[i];
    if (--fragment.pending[dependant] == 0) ready_.push_back({&execution, ref.fragment, dependant});
  }
  if (--fragment.left == 0) finish_fragment(execution, ref.fragment);
}

void Executor::finish_fragment(Execution& execution, std::uint32_t slot) {
  const auto& fragment = execution.in_flight_[slot];
  const Binding& binding = execution.binding_;
  if (binding.divisor > 1) {
    Chunk finished{schedule::Space::kOutput, 0, 1, 1};
    if (binding.blocks > 1) finished = {schedule::Space::kOutput, own_block(binding), binding.blocks, 1};
    const Stretch result = fragment.place.find(finished, nullptr);
    if (result.elements > 0) {
      kernels::divide(binding.signature.dtype, result.data, binding.divisor, result.elements);
    }
  }
  ++execution.fragments_done_;
  if (execution.next_fragment_ < execution.fragments_) return start_fragment(execution, slot);
  if (execution.fragments_done_ == execution.fragments_) execution.finished_ = true;
}

void Executor::complete(const Completion& completion) {
  const auto slot = static_cast<std::uint32_t>(completion.cookie >> 48);
  const auto fragment = static_cast<std::uint32_t>(completion.cookie >> 32 & 0xffff);
  const auto step = static_cast<std::uint32_t>(completion.cookie);
  Execution& execution = *executions_[slot];
  --execution.outstanding_;
  if (!execution.status_.ok()) {
    if (execution.outstanding_ == 0) execution.finished_ = true;
    return;
  }
  if (!completion.status.ok()) {
    const Status named = completion.status.with_context(
        fmt::format("call {}: {}", execution.binding_.sequence, describe({&execution, fragment, step})));
    return fail(execution.endpoints_->communicator, named);
  }
  const StepRef ref{&execution, fragment, step};
  if (execution.plan_->schedule.steps[step].kind == StepKind::kRecv) {
    if (Status status = take_message(ref, completion); !status.ok()) {
      return fail(execution.endpoints_->communicator,
                  status.with_context(fmt::format("call {}", execution.binding_.sequence)));
    }
  }
  finish_step(ref);
}

void Executor::look_at_all() {
  wake_all();
  passes_ = kPassesPerRound - 1;
}

void Executor::wake(int descriptor) {
  for (Polled& polled : engines_) {
    if (polled.engine->descriptor() != descriptor) continue;
    polled.awake = polled.rung = true;
  }
}

void Executor::wake_all() {
  for (Polled& polled : engines_) polled.awake = true;
}

/// What a step asks of an engine, which is then awake.
Posted Executor::post(Engine* engine, const StepRef& ref) {
  const auto polled =
      std::find_if(engines_.begin(), engines_.end(), [&](const Polled& p) { return p.engine == engine; });
  polled->awake = true;
  const Posted posted = engine->post(call_of(ref), cookie_of(ref.execution->slot_, ref.fragment, ref.step));
  if (posted == Posted::kAccepted) ++polled->outstanding;
  return posted;
}

bool Executor::progress() {
  bool moved = false;
  // A busy engine must not keep an armed one from being looked at for long.
  const bool look_at_idle = ++passes_ % kPassesPerRound == 0;
  if (look_at_idle) wake_all();
  for (Polled& polled : engines_) {
    if (!polled.awake || (polled.outstanding == 0 && !polled.rung && !look_at_idle)) continue;
    polled.rung = false;
    for (;;) {
      const std::size_t got = polled.engine->poll(completions_);
      polled.outstanding -= static_cast<std::uint32_t>(got);
      for (std::size_t c = 0; c < got; ++c) complete(completions_[c]);
      moved |= got > 0;
      if (got < completions_.size()) break;
    }
    drain_ready();
  }
  for (std::size_t left = retry_.size(); left > 0; --left) {
    const StepRef ref = retry_.front();
    retry_.pop_front();
    if (issue(ref)) {
      moved = true;
      drain_ready();
    } else {
      retry_.push_back(ref);
    }
  }
  if (moved) ++moves_;
  return moved;
}

bool Executor::arm() {
  // A step that found a full queue is tried again at once: nothing promises a wake-up when there is room.
  if (!retry_.empty()) return false;
  for (Polled& polled : engines_) {
    if (!polled.awake) continue;
    if (!polled.engine->arm()) return false;
    polled.awake = false;
  }
  return true;
}

void Executor::fail(std::uint32_t communicator, const Status& status) {
  if (!broken_.insert_or_assign(communicator, status).second) return;
  // Nothing of the failed calls may be issued any more; what was posted comes back from the engines as aborted.
  const auto gone = [&](const StepRef& ref) { return ref.execution->endpoints_->communicator == communicator; };
  std::erase_if(retry_, gone);
  std::erase_if(ready_, gone);
  for (auto& [key, lane] : lanes_) std::erase_if(lane.waiting, [&](const auto& entry) { return gone(entry.second); });
  const Endpoints* endpoints = nullptr;
  for (auto& execution : executions_) {
    if (execution->finished_ || execution->endpoints_->communicator != communicator) continue;
    endpoints = execution->endpoints_;
    execution->status_ = status;
    execution->finished_ = execution->outstanding_ == 0;
  }
  if (endpoints == nullptr) return;
  wake_all();  // what is cancelled comes back from polling
  std::vector<Engine*> transports;
  for (Engine* route : endpoints->routes) {
    if (route == nullptr || std::find(transports.begin(), transports.end(), route) != transports.end()) continue;
    transports.push_back(route);
    route->cancel(communicator);
  }
  for (Engine* group : endpoints->groups) {
    if (group != nullptr) group->cancel(communicator);
  }
}

void Executor::for_each_unfinished(const std::function<void(const Execution&)>& visit) const {
  for (const auto& execution : executions_) {
    if (!execution->finished_) visit(*execution);
  }
}

Status Executor::health(std::uint32_t communicator) const {
  if (broken_.empty()) return ok_status();
  auto broken = broken_.find(communicator);
  if (broken == broken_.end()) return ok_status();
  return aborted("the communicator is broken by an earlier error (" + broken->second.to_string() + "): destroy it");
}

std::string Executor::describe(const StepRef& ref) const {
  const Execution& execution = *ref.execution;
  const Step& step = execution.plan_->schedule.steps[ref.step];
  const auto& endpoints = *execution.endpoints_;
  const auto index = execution.in_flight_[ref.fragment].index;
  switch (step.kind) {
    case StepKind::kSend:
      return fmt::format("send to {}, fragment {}", endpoints.names[step.peer], index);
    case StepKind::kRecv:
      return fmt::format("recv from {}, fragment {}", endpoints.names[step.peer], index);
    case StepKind::kGroup:
      return fmt::format("{}, fragment {}", endpoints.group_names[step.group], index);
    case StepKind::kReduce:
    case StepKind::kCopy:
      break;
  }
  return "a local step";
}

std::string Executor::waiting_for(const Execution& execution) const {
  std::string text;
  int listed = 0;
  for (std::uint32_t slot = 0; slot < execution.in_flight_.size(); ++slot) {
    const auto& posted = execution.in_flight_[slot].posted;
    for (std::uint32_t step = 0; step < posted.size(); ++step) {
      if (!posted[step]) continue;
      if (++listed > 4) return text + ", ...";
      text += (text.empty() ? "" : "; ") + describe({const_cast<Execution*>(&execution), slot, step});
    }
  }
  return text.empty() ? "its turn behind earlier calls" : text;
}

}  // namespace foldcast::runtime
