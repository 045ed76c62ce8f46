#include "tests/core/schedule/editing.h"

#include <map>
#include <string>
#include <tuple>

namespace foldcast::schedule {

Edited::Edited(const Schedule& schedule) : steps(schedule.steps), scratch_units(schedule.scratch_units) {
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

Program build_staged(const Algorithm& algorithm, std::uint32_t nodes, std::uint32_t local) {
  constexpr Chunk kInput{Space::kInput, 0, 1, 1};
  constexpr Chunk kOutput{Space::kOutput, 0, 1, 1};
  const auto owners = static_cast<std::uint16_t>(local);
  Program program = build_program("node+" + std::string(algorithm.name), nodes * local, [&](Builder& builder) {
    const auto rank = static_cast<std::uint32_t>(builder.rank());
    const std::uint32_t node = rank / local;
    const std::uint32_t shard = rank % local;
    std::vector<std::int32_t> members;
    for (std::uint32_t each = 0; each < nodes; ++each)
      members.push_back(static_cast<std::int32_t>(each * local + shard));
    builder.group({.verb = Verb::kReduceScatter, .group = node, .owners = owners, .source = kInput, .target = kOutput});
    Stage stage;
    stage.members = members;
    stage.self = static_cast<std::int32_t>(node);
    stage.source = stage.target = part(kOutput, shard, local);
    stage.channel = 3;
    std::get<StageAlgorithm>(algorithm.build)(builder, stage);
    builder.group(
        {.verb = Verb::kAllGather, .group = node, .lane = 1, .owners = owners, .source = kOutput, .target = kOutput});
  });
  for (std::uint32_t node = 0; node < nodes; ++node) {
    Group group{GroupKind::kNode, "node " + std::to_string(node), {}};
    for (std::uint32_t shard = 0; shard < local; ++shard) {
      group.members.push_back(static_cast<std::int32_t>(node * local + shard));
    }
    program.groups.push_back(group);
  }
  return program;
}

}  // namespace foldcast::schedule
