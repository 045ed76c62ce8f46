#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

struct StepRef {
  std::uint32_t rank = 0;
  std::uint32_t step = 0;
  friend bool operator==(const StepRef&, const StepRef&) = default;
};

/// "rank 3, step 7 (send input[0/4] to rank 0, message 2)".
std::string describe(const Program& program, StepRef where);

/// One call of an engine group: the steps of all its members, in group order.
struct GroupCall {
  std::uint32_t group = 0;
  std::uint8_t lane = 0;
  std::vector<StepRef> members;
};

/// What joins the schedules of a program's ranks: which receive takes which message, and which group steps are one
/// call.
struct Wiring {
  static constexpr std::uint32_t kNone = ~0u;
  /// Per rank and step: of a send or receive, the step number of its other side; of a group step, the number of its
  /// call.
  std::vector<std::vector<std::uint32_t>> other;
  std::vector<GroupCall> calls;
};

/// What is known of a whole beyond its length.
struct Blocks {
  std::uint32_t count = 1;  ///< it is so many equal blocks: cuts between them are exact
  bool crosses = false;     ///< messages and copies may go from a part of one block to the same part of another
};

/// Checks that each schedule is well formed (chunks inside their buffers, operands of one size for every count,
/// dependences consistent and backward only, peers and groups that exist) and joins them. kInternal, naming rank and
/// step, when a message has no other side, the two sides differ, or members of a group post different calls.
Result<Wiring> wire(const Program& program, const Blocks& blocks = {});

/// Steps start and end: event 2i is the start of step i (counted over all ranks, in rank order), 2i + 1 its end.
struct EventOrder {
  std::vector<std::uint32_t> first_step;  ///< of each rank; one more than ranks
  std::vector<std::uint32_t> events;      ///< a legal order of all events
  StepRef step_of(std::uint32_t event) const;
  static bool is_end(std::uint32_t event) { return event % 2 != 0; }
};

/// One order in which everything can happen even if nothing is buffered: a send ends after its receive was posted, a
/// call after all members posted it, and each lane of a group is posted in program order. kInternal with the circle of
/// steps that wait for each other when there is none: a deadlock. `wiring` must be the program's.
Result<EventOrder> order_events(const Program& program, const Wiring& wiring);

}  // namespace foldcast::schedule
