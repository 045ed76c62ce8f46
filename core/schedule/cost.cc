#include "core/schedule/cost.h"

#include <algorithm>
#include <vector>

#include "core/schedule/wiring.h"

namespace foldcast::schedule {
namespace {

double size_of(const Chunk& chunk) { return static_cast<double>(chunk.span) / chunk.of; }

/// The most of each quantity on any path that ends here.
struct Longest {
  std::uint32_t rounds = 0;
  double bytes = 0;
  double reduced = 0;
  void join(const Longest& other) {
    rounds = std::max(rounds, other.rounds);
    bytes = std::max(bytes, other.bytes);
    reduced = std::max(reduced, other.reduced);
  }
};

class Paths {
 public:
  Paths(const Program& program, const Wiring& wiring) : program_(program), wiring_(wiring) {
    for (const Schedule& schedule : program.ranks) {
      starts_.emplace_back(schedule.steps.size());
    }
    met_.resize(wiring.calls.size());
  }

  Longest run(const EventOrder& order) {
    for (std::uint32_t event : order.events) {
      const StepRef where = order.step_of(event);
      EventOrder::is_end(event) ? end(where) : start(where);
    }
    return all_;
  }

 private:
  void start(StepRef where) {
    const Step& step = program_.ranks[where.rank].steps[where.step];
    if (step.kind == StepKind::kGroup) {
      met_[wiring_.other[where.rank][where.step]].join(starts_[where.rank][where.step]);
    }
  }

  void end(StepRef where) {
    const Schedule& schedule = program_.ranks[where.rank];
    const Step& step = schedule.steps[where.step];
    Longest ended = starts_[where.rank][where.step];
    switch (step.kind) {
      case StepKind::kSend:
        ended.bytes += size_of(step.a);
        break;  // it is out; when it arrives is the receiver's affair
      case StepKind::kRecv: {
        Longest sent = starts_[static_cast<std::size_t>(step.peer)][wiring_.other[where.rank][where.step]];
        sent.rounds += 1;
        sent.bytes += size_of(step.target);
        ended.join(sent);
        break;
      }
      case StepKind::kReduce:
        ended.reduced += size_of(step.target);
        break;
      case StepKind::kCopy:
        break;
      case StepKind::kGroup:
        ended.join(met_[wiring_.other[where.rank][where.step]]);
        break;
    }
    all_.join(ended);
    for (std::uint32_t i = schedule.dependants_begin[where.step]; i < schedule.dependants_begin[where.step + 1]; ++i) {
      starts_[where.rank][schedule.dependants[i]].join(ended);
    }
  }

  const Program& program_;
  const Wiring& wiring_;
  std::vector<std::vector<Longest>> starts_;  ///< per step: paths up to its start
  std::vector<Longest> met_;                  ///< per group call: paths up to its last member's start
  Longest all_;
};

void add_sums(const Schedule& schedule, ScheduleCost& cost) {
  double sent = 0;
  double received = 0;
  double reduced = 0;
  std::uint32_t messages = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kSend) sent += size_of(step.a);
    if (step.kind == StepKind::kRecv) received += size_of(step.target);
    if (step.kind == StepKind::kReduce) reduced += size_of(step.target);
    if (step.kind == StepKind::kSend || step.kind == StepKind::kRecv) ++messages;
  }
  cost.bytes_sent = std::max(cost.bytes_sent, sent);
  cost.bytes_received = std::max(cost.bytes_received, received);
  cost.bytes_reduced = std::max(cost.bytes_reduced, reduced);
  cost.messages = std::max(cost.messages, messages);
  cost.scratch_units = std::max(cost.scratch_units, schedule.scratch_units);
}

}  // namespace

Result<ScheduleCost> cost_of(const Program& program) {
  FOLDCAST_ASSIGN(const Wiring wiring, wire(program, {static_cast<std::uint32_t>(program.ranks.size()), true}));
  FOLDCAST_ASSIGN(const EventOrder order, order_events(program, wiring));
  const Longest longest = Paths(program, wiring).run(order);
  ScheduleCost cost;
  cost.rounds = longest.rounds;
  cost.critical_bytes = longest.bytes;
  cost.critical_reduced = longest.reduced;
  for (const Schedule& schedule : program.ranks) add_sums(schedule, cost);
  return cost;
}

}  // namespace foldcast::schedule
