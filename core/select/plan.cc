#include "core/select/plan.h"

#include <algorithm>

#include "core/schedule/builder.h"

namespace foldcast::select {

void Plan::set_schedule(schedule::Schedule made) {
  schedule = std::move(made);
  const auto& steps = schedule.steps;
  roots.clear();
  lanes.clear();
  lane_of_step.assign(steps.size(), 0);
  ordinal_of_step.assign(steps.size(), 0);
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (schedule.dependences[i] == 0) roots.push_back(i);
    if (steps[i].kind != schedule::StepKind::kGroup) continue;
    auto use = std::find_if(lanes.begin(), lanes.end(), [&](const LaneUse& known) {
      return known.group == steps[i].group && known.lane == steps[i].lane;
    });
    if (use == lanes.end()) use = lanes.insert(lanes.end(), {steps[i].group, steps[i].lane, 0});
    lane_of_step[i] = static_cast<std::uint32_t>(use - lanes.begin());
    ordinal_of_step[i] = use->steps++;
  }
}

Plan message_plan(std::int32_t rank, std::int32_t peer, bool sends) {
  schedule::Builder builder(rank);
  if (sends) {
    builder.send(peer, {schedule::Space::kInput, 0, 1, 1});
  } else {
    builder.recv(peer, {schedule::Space::kOutput, 0, 1, 1});
  }
  Plan plan;
  plan.name = "direct";
  plan.divisible = false;
  plan.set_schedule(builder.finish());
  return plan;
}

}  // namespace foldcast::select
