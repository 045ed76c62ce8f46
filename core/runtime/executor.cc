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

constexpr std::size_t kMostExecutions = 1u << 16;
constexpr std::uint32_t kPassesPerRound = 1024;
/// Idle executions that may have run the same call before.
constexpr std::size_t kMostLookedAt = 8;
/// More scratch memory than this is given back when a call needs less.
constexpr std::uint64_t kKeptScratch = 64u << 20;

constexpr std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

std::uint32_t own_block(const Binding& binding) { return static_cast<std::uint32_t>(binding.output.only_block); }

}  // namespace

Executor::Executor() : completions_(kCompletionsPerPoll) {}

void Executor::add_engine(Engine* engine) {
  engines_.push_back(std::make_unique<PolledEngine>());
  engines_.back()->engine = engine;
}

void Executor::remove_engine(Engine* engine) {
  ++generation_;
  std::erase_if(engines_, [&](const auto& polled) { return polled->engine == engine; });
  std::erase_if(lanes_, [&](const auto& entry) { return entry.first.first == engine; });
}

bool Executor::sleeps_on(int descriptor) const {
  return std::any_of(engines_.begin(), engines_.end(),
                     [&](const auto& polled) { return polled->engine->descriptor() == descriptor; });
}

void Executor::forget(std::uint32_t communicator) {
  ++generation_;
  broken_.erase(communicator);
}

Executor::Lane& Executor::lane_of(const Execution& execution, std::uint32_t group, std::uint8_t lane) {
  return lanes_[{execution.endpoints_->groups[group], lane}];
}

Result<Execution*> Executor::take_idle(const Endpoints& endpoints, const select::Plan& plan, const Binding& binding,
                                       bool& again) {
  const auto repeats = [&](const Execution* e) {
    return e->plan_ == &plan && e->endpoints_ == &endpoints && e->generation_ == generation_ && e->fragments_ == 1 &&
           e->binding_.repeats(binding);
  };
  again = false;
  if (idle_.empty()) {
    if (executions_.size() == kMostExecutions) {
      return resource_exhausted(fmt::format("{} calls are outstanding: wait for some of them", kMostExecutions));
    }
    executions_.push_back(std::make_unique<Execution>());
    return executions_.back().get();
  }
  const std::size_t looked_at = std::min(idle_.size(), kMostLookedAt);
  for (std::size_t i = 0; i < looked_at && !again; ++i) {
    Execution*& one = idle_[idle_.size() - 1 - i];
    if (!repeats(one)) continue;
    again = true;
    std::swap(one, idle_.back());
  }
  Execution* const taken = idle_.back();
  idle_.pop_back();
  return taken;
}

PolledEngine* Executor::find(const Engine* engine) const {
  for (const auto& polled : engines_) {
    if (polled->engine == engine) return polled.get();
  }
  return nullptr;
}

Result<Execution*> Executor::launch(const Endpoints& endpoints, const select::Plan& plan, const Binding& binding,
                                    Engine* waiter) {
  FOLDCAST_RETURN_IF_ERROR(health(endpoints.communicator));
  bool again = false;
  FOLDCAST_ASSIGN(Execution* const taken, take_idle(endpoints, plan, binding, again));
  Execution& execution = *taken;
  execution.finished_ = false;
  execution.waiter_ = waiter == nullptr ? nullptr : find(waiter);
  execution.outstanding_ = 0;
  execution.next_fragment_ = execution.fragments_done_ = 0;
  if (again) {
    execution.binding_.sequence = binding.sequence;
  } else {
    execution.endpoints_ = &endpoints;
    execution.plan_ = &plan;
    execution.binding_ = binding;
    execution.status_ = ok_status();
    execution.generation_ = generation_;
    const std::uint64_t bytes = binding.count * binding.blocks * size_of(binding.signature.dtype);
    execution.fragments_ = 1;
    if (plan.divisible && bytes > plan.pipelining.fragment_bytes) {
      execution.fragments_ = (bytes + plan.pipelining.fragment_bytes - 1) / plan.pipelining.fragment_bytes;
    }
    execution.in_flight_.resize(std::min<std::uint64_t>(execution.fragments_, plan.pipelining.depth));
    allocate(execution);
    execution.turns_.clear();
    for (const auto& use : plan.lanes) execution.turns_.push_back({&lane_of(execution, use.group, use.lane), 0});
  }
  for (std::size_t use = 0; use < execution.turns_.size(); ++use) {
    Lane& lane = *static_cast<Lane*>(execution.turns_[use].lane);
    execution.turns_[use].first = lane.allocated;
    lane.allocated += execution.fragments_ * plan.lanes[use].steps;
  }
  const auto depth = static_cast<std::uint32_t>(execution.in_flight_.size());
  for (std::uint32_t slot = 0; slot < depth; ++slot) start_fragment(execution, slot, again);
  drain_ready();
  return taken;
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

void Executor::start_fragment(Execution& execution, std::uint32_t slot, bool again) {
  auto& fragment = execution.in_flight_[slot];
  const auto& schedule = execution.plan_->schedule;
  const std::size_t steps = schedule.steps.size();
  fragment.index = static_cast<std::uint32_t>(execution.next_fragment_++);
  fragment.left = static_cast<std::uint32_t>(steps);
  if (!again) {
    fragment.place = Placement(execution.binding_, fragment.index, execution.fragments_);
    fragment.steps.resize(steps);
    for (std::uint32_t index = 0; index < steps; ++index) {
      RunningStep& step = fragment.steps[index];
      step.execution = &execution;
      step.fragment = slot;
      step.index = index;
      step.kind = schedule.steps[index].kind;
      step.posted = step.bound = false;
    }
  }
  for (std::size_t index = 0; index < steps; ++index) fragment.steps[index].pending = schedule.dependences[index];
  if (steps == 0) return finish_fragment(execution, slot);
  // Last in, first out: push the roots backwards so that they are issued in program order.
  const auto& roots = execution.plan_->roots;
  for (auto root = roots.rbegin(); root != roots.rend(); ++root) ready_.push_back(&fragment.steps[*root]);
}

void Executor::drain_ready() {
  while (!ready_.empty()) {
    RunningStep* const step = ready_.back();
    ready_.pop_back();
    if (!issue(*step)) retry_.push_back(step);
  }
}

void Executor::bind(RunningStep& running) {
  const Execution& execution = *running.execution;
  const auto& fragment = execution.in_flight_[running.fragment];
  const Endpoints& endpoints = *execution.endpoints_;
  const Step& step = execution.plan_->schedule.steps[running.index];
  std::byte* const wire =
      execution.wire_offsets_.empty() ? nullptr : fragment.wire + execution.wire_offsets_[running.index];
  bind_step(step, {endpoints, execution.binding_, fragment.place, fragment.scratch, wire}, running);
  running.call.key.fragment = fragment.index;
  const Engine* engine = nullptr;
  if (step.kind == StepKind::kGroup) engine = endpoints.groups[step.group];
  if (step.kind == StepKind::kSend || step.kind == StepKind::kRecv) {
    engine = endpoints.routes[static_cast<std::size_t>(step.peer)];
  }
  running.engine = find(engine);
  running.bound = true;
}

Status Executor::take_message(const RunningStep& step, const Completion& completion) const {
  const Execution& execution = *step.execution;
  if (completion.bytes != step.call.bytes) {
    const auto peer = static_cast<std::size_t>(execution.plan_->schedule.steps[step.index].peer);
    return mismatch(fmt::format("{} sent {} bytes where this rank expects {}: all ranks must pass the same counts",
                                execution.endpoints_->names[peer], completion.bytes, step.call.bytes));
  }
  const WireFormat wire = execution.binding_.signature.wire;
  if (wire != WireFormat::kExact) {
    kernels::decode(wire, reinterpret_cast<float*>(step.target), step.call.output, step.elements);
  }
  return ok_status();
}

bool Executor::issue(RunningStep& step) {
  if (!step.bound) bind(step);
  const Signature& signature = step.execution->binding_.signature;
  switch (step.kind) {
    case StepKind::kSend:
      if (signature.wire != WireFormat::kExact) encode(step);
      return post(step);
    case StepKind::kRecv:
      return post(step);
    case StepKind::kGroup:
      return issue_group(step);
    case StepKind::kReduce:
      kernels::reduce(pairwise(signature.op), signature.dtype, step.target, step.a, step.b, step.elements);
      finish_step(step);
      return true;
    case StepKind::kCopy:
      if (step.target != step.a && step.elements > 0) {
        std::memcpy(step.target, step.a, step.elements * size_of(signature.dtype));
      }
      finish_step(step);
      return true;
  }
  return true;
}

void Executor::encode(const RunningStep& step) const {
  const WireFormat wire = step.execution->binding_.signature.wire;
  auto* const rounded = const_cast<std::byte*>(step.call.input);
  auto* const values = reinterpret_cast<float*>(step.target);
  // What others get of a sum is what its owner keeps: else ranks would end with different bits.
  if (step.execution->plan_->schedule.steps[step.index].a.space == schedule::Space::kInput) {
    kernels::encode(wire, rounded, values, step.elements);
  } else {
    kernels::encode_and_round(wire, rounded, values, step.elements);
  }
}

bool Executor::issue_group(RunningStep& step) {
  const Execution& execution = *step.execution;
  const select::Plan& plan = *execution.plan_;
  const std::uint32_t use = plan.lane_of_step[step.index];
  const std::uint64_t turn = execution.turns_[use].first +
                             std::uint64_t{execution.in_flight_[step.fragment].index} * plan.lanes[use].steps +
                             plan.ordinal_of_step[step.index];
  Lane& lane = *static_cast<Lane*>(execution.turns_[use].lane);
  if (turn != lane.next) {
    lane.waiting.emplace(turn, &step);
    return true;
  }
  if (!post(step)) return false;
  ++lane.next;
  if (lane.waiting.empty()) return true;
  if (auto following = lane.waiting.find(lane.next); following != lane.waiting.end()) {
    ready_.push_back(following->second);
    lane.waiting.erase(following);
  }
  return true;
}

/// The engine is then awake.
bool Executor::post(RunningStep& step) {
  PolledEngine& polled = *step.engine;
  polled.awake = true;
  step.call.key.sequence = step.execution->binding_.sequence;
  if (polled.engine->post(step.call, reinterpret_cast<std::uintptr_t>(&step)) == Posted::kRetry) return false;
  ++polled.outstanding;
  ++step.execution->outstanding_;
  step.posted = true;
  return true;
}

void Executor::finish_step(RunningStep& step) {
  Execution& execution = *step.execution;
  auto& fragment = execution.in_flight_[step.fragment];
  const auto& schedule = execution.plan_->schedule;
  step.posted = false;
  for (std::uint32_t i = schedule.dependants_begin[step.index]; i < schedule.dependants_begin[step.index + 1]; ++i) {
    RunningStep& dependant = fragment.steps[schedule.dependants[i]];
    if (--dependant.pending == 0) ready_.push_back(&dependant);
  }
  if (--fragment.left == 0) finish_fragment(execution, step.fragment);
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
  if (execution.next_fragment_ < execution.fragments_) return start_fragment(execution, slot, false);
  if (execution.fragments_done_ == execution.fragments_) finish(execution);
}

void Executor::finish(Execution& execution) {
  execution.finished_ = true;
  if (execution.waiter_ != nullptr) execution.waiter_->awake = execution.waiter_->rung = true;
}

void Executor::complete(const Completion& completion) {
  RunningStep& step = *reinterpret_cast<RunningStep*>(completion.cookie);
  Execution& execution = *step.execution;
  --execution.outstanding_;
  if (!execution.status_.ok()) {
    if (execution.outstanding_ == 0) finish(execution);
    return;
  }
  if (!completion.status.ok()) {
    const Status named =
        completion.status.with_context(fmt::format("call {}: {}", execution.binding_.sequence, describe(step)));
    return fail(execution.endpoints_->communicator, named);
  }
  if (step.kind == StepKind::kRecv) {
    if (Status status = take_message(step, completion); !status.ok()) {
      return fail(execution.endpoints_->communicator,
                  status.with_context(fmt::format("call {}", execution.binding_.sequence)));
    }
  }
  finish_step(step);
}

void Executor::look_at_all() {
  wake_all();
  passes_ = kPassesPerRound - 1;
}

void Executor::wake(int descriptor) {
  for (const auto& polled : engines_) {
    if (polled->engine->descriptor() == descriptor) polled->awake = polled->rung = true;
  }
}

void Executor::ring(const Engine& engine) {
  PolledEngine* const polled = find(&engine);
  if (polled != nullptr) polled->awake = polled->rung = true;
}

void Executor::wake_all() {
  for (const auto& polled : engines_) polled->awake = true;
}

bool Executor::progress() {
  bool moved = false;
  // A busy engine must not keep an armed one from being looked at for long.
  const bool look_at_idle = ++passes_ % kPassesPerRound == 0;
  if (look_at_idle) wake_all();
  for (const auto& one : engines_) {
    PolledEngine& polled = *one;
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
    RunningStep* const step = retry_.front();
    retry_.pop_front();
    if (issue(*step)) {
      moved = true;
      drain_ready();
    } else {
      retry_.push_back(step);
    }
  }
  if (moved) ++moves_;
  return moved;
}

bool Executor::arm() {
  // A step that found a full queue is tried again at once: nothing promises a wake-up when there is room.
  if (!retry_.empty()) return false;
  for (const auto& polled : engines_) {
    if (!polled->awake) continue;
    if (!polled->engine->arm()) return false;
    polled->awake = false;
  }
  return true;
}

void Executor::fail(std::uint32_t communicator, const Status& status) {
  if (!broken_.insert_or_assign(communicator, status).second) return;
  ++generation_;
  // Nothing of the failed calls may be issued any more; what was posted comes back from the engines as aborted.
  const auto gone = [&](const RunningStep* step) { return step->execution->endpoints_->communicator == communicator; };
  std::erase_if(retry_, gone);
  std::erase_if(ready_, gone);
  for (auto& [key, lane] : lanes_) std::erase_if(lane.waiting, [&](const auto& entry) { return gone(entry.second); });
  const Endpoints* endpoints = nullptr;
  for (auto& execution : executions_) {
    if (execution->finished_ || execution->endpoints_->communicator != communicator) continue;
    endpoints = execution->endpoints_;
    execution->status_ = status;
    if (execution->outstanding_ == 0) finish(*execution);
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

std::string Executor::describe(const RunningStep& running) const {
  const Execution& execution = *running.execution;
  const Step& step = execution.plan_->schedule.steps[running.index];
  const auto& endpoints = *execution.endpoints_;
  const auto index = execution.in_flight_[running.fragment].index;
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
  for (const auto& fragment : execution.in_flight_) {
    for (const RunningStep& step : fragment.steps) {
      if (!step.posted) continue;
      if (++listed > 4) return text + ", ...";
      text += (text.empty() ? "" : "; ") + describe(step);
    }
  }
  return text.empty() ? "its turn behind earlier calls" : text;
}

}  // namespace foldcast::runtime
