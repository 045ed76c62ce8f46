#include "core/schedule/builder.h"

#include "core/base/check.h"
#include "core/schedule/dependences.h"
#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

void check_chunk(const Chunk& chunk) {
  FOLDCAST_CHECK(is_valid(chunk), "a schedule's chunk must lie inside its buffer or scratch unit");
}

}  // namespace

void Builder::send(std::int32_t peer, Chunk source, std::uint32_t channel) {
  check_chunk(source);
  Step step;
  step.kind = StepKind::kSend;
  step.peer = peer;
  step.channel = channel;
  step.ordinal = sent_[{peer, channel}]++;
  step.a = source;
  append(step);
}

void Builder::recv(std::int32_t peer, Chunk target, std::uint32_t channel) {
  check_chunk(target);
  Step step;
  step.kind = StepKind::kRecv;
  step.peer = peer;
  step.channel = channel;
  step.ordinal = received_[{peer, channel}]++;
  step.target = target;
  append(step);
}

void Builder::reduce(Chunk target, Chunk a, Chunk b) {
  check_chunk(target);
  check_chunk(a);
  check_chunk(b);
  Step step;
  step.kind = StepKind::kReduce;
  step.a = a;
  step.b = b;
  step.target = target;
  append(step);
}

void Builder::copy(Chunk target, Chunk source) {
  check_chunk(target);
  check_chunk(source);
  if (target == source) return;
  Step step;
  step.kind = StepKind::kCopy;
  step.a = source;
  step.target = target;
  append(step);
}

void Builder::group(const GroupStep& group) {
  check_chunk(group.source);
  check_chunk(group.target);
  Step step;
  step.kind = StepKind::kGroup;
  step.verb = group.verb;
  step.lane = group.lane;
  step.owners = group.owners;
  step.group = group.group;
  step.peer = group.root;
  step.a = group.source;
  step.target = group.target;
  append(step);
}

std::uint32_t Builder::scratch_unit() { return scratch_units_++; }

void Builder::append(Step step) { steps_.push_back(step); }

Schedule Builder::finish() {
  Schedule schedule;
  schedule.steps = std::move(steps_);
  schedule.scratch_units = scratch_units_;
  schedule.memory = memory_;
  const std::size_t count = schedule.steps.size();

  DependenceInference inference(count);
  std::vector<std::vector<std::uint32_t>> waits_for;
  waits_for.reserve(count);
  schedule.dependants_begin.assign(count + 1, 0);
  for (std::uint32_t step = 0; step < count; ++step) {
    waits_for.push_back(inference.add(footprint_of(schedule.steps[step], schedule.memory)));
    schedule.dependences.push_back(static_cast<std::uint32_t>(waits_for.back().size()));
    for (std::uint32_t earlier : waits_for.back()) ++schedule.dependants_begin[earlier + 1];
  }
  for (std::size_t step = 0; step < count; ++step) {
    schedule.dependants_begin[step + 1] += schedule.dependants_begin[step];
  }
  schedule.dependants.resize(schedule.dependants_begin[count]);
  std::vector<std::uint32_t> next(schedule.dependants_begin.begin(), schedule.dependants_begin.end() - 1);
  for (std::uint32_t step = 0; step < count; ++step) {
    for (std::uint32_t earlier : waits_for[step]) schedule.dependants[next[earlier]++] = step;
  }
  *this = Builder(rank_);
  return schedule;
}

}  // namespace foldcast::schedule
