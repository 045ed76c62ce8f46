#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "core/select/estimate.h"

namespace foldcast::select {

enum class Path : std::uint8_t { kHost, kOffload };
constexpr const char* to_string(Path path) { return path == Path::kOffload ? "offload" : "host"; }

/// One rank's part of a plan: what the executor runs. Has no pointers, counts or streams, and is made once per shape.
struct Plan {
  std::string name;
  Path path = Path::kHost;
  Pipelining pipelining;
  schedule::Schedule schedule;
  /// Whether a call may be cut into fragments. Where blocks are cut, messages of several blocks are not in one piece
  /// any more, and neither is what a group works on.
  bool divisible = true;

  // Derived from the schedule, so that launching a call looks nothing up.
  std::vector<std::uint32_t> roots;  ///< steps that depend on nothing
  /// A lane of a group that the schedule uses, and by how many steps.
  struct LaneUse {
    std::uint32_t group = 0;
    std::uint8_t lane = 0;
    std::uint32_t steps = 0;
  };
  std::vector<LaneUse> lanes;
  std::vector<std::uint32_t> lane_of_step;     ///< group steps: index in `lanes`
  std::vector<std::uint32_t> ordinal_of_step;  ///< group steps: how many came before it on its lane

  /// Takes `schedule` and derives the rest from it.
  void set_schedule(schedule::Schedule made);
};

/// What sends one message to `peer`, or receives one from it, as rank `rank`.
Plan message_plan(std::int32_t rank, std::int32_t peer, bool sends);

}  // namespace foldcast::select
