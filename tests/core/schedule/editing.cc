#include "tests/core/schedule/editing.h"

#include <map>
#include <tuple>

namespace foldcast::schedule {

Edited::Edited(const Schedule& schedule)
    : steps(schedule.steps), scratch_units(schedule.scratch_units), memory(schedule.memory) {
  for (std::uint32_t step = 0; step < steps.size(); ++step) {
    for (std::uint32_t i = schedule.dependants_begin[step]; i < schedule.dependants_begin[step + 1]; ++i) {
      edges.emplace(step, schedule.dependants[i]);
    }
  }
}

Schedule Edited::schedule() const {
  Schedule made;
  made.steps = steps;
  made.scratch_units = scratch_units;
  made.memory = memory;
  made.dependences.assign(steps.size(), 0);
  made.dependants_begin.assign(steps.size() + 1, 0);
  for (const auto& [earlier, later] : edges) {  // in the order of `earlier`
    ++made.dependences[later];
    ++made.dependants_begin[earlier + 1];
    made.dependants.push_back(later);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) made.dependants_begin[i + 1] += made.dependants_begin[i];
  return made;
}

void Edited::drop(std::uint32_t step) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> kept;
  auto moved = [&](std::uint32_t number) { return number > step ? number - 1 : number; };
  for (const auto& [earlier, later] : edges) {
    if (earlier != step && later != step) kept.emplace(moved(earlier), moved(later));
    if (later != step) continue;
    for (const auto& [own, behind] : edges) {
      if (own == step) kept.emplace(moved(earlier), moved(behind));
    }
  }
  edges = std::move(kept);
  steps.erase(steps.begin() + step);
  renumber();
}

void Edited::duplicate(std::uint32_t step) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> kept;
  auto moved = [&](std::uint32_t number) { return number > step ? number + 1 : number; };
  for (const auto& [earlier, later] : edges) {
    kept.emplace(earlier == step ? step + 1 : moved(earlier), moved(later));
  }
  kept.emplace(step, step + 1);
  edges = std::move(kept);
  steps.insert(steps.begin() + step, Step(steps[step]));
  renumber();
}

void Edited::renumber() {
  std::map<std::tuple<StepKind, std::int32_t, std::uint32_t>, std::uint32_t> next;
  for (Step& step : steps) {
    if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
    step.ordinal = next[{step.kind, step.peer, step.channel}]++;
  }
}

}  // namespace foldcast::schedule
