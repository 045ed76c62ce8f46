#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/schedule/wiring.h"

namespace foldcast::schedule {
namespace {

/// Events and "a before b" between them. Events from 2 * steps on are the meetings of group calls: a node between all
/// starts and all ends, so that a call of m members needs 2m edges and not m * m.
class EventGraph {
 public:
  EventGraph(const Program& program, const Wiring& wiring) {
    first_step_.push_back(0);
    for (const Schedule& schedule : program.ranks) {
      first_step_.push_back(first_step_.back() + static_cast<std::uint32_t>(schedule.steps.size()));
    }
    for (std::uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
      add_steps(program.ranks[rank], rank);
      add_messages(program.ranks[rank], rank, wiring);
      add_lanes(program.ranks[rank], rank);
    }
    std::uint32_t meeting = 2 * first_step_.back();
    for (const GroupCall& call : wiring.calls) {
      for (const StepRef& member : call.members) {
        before(start(member.rank, member.step), meeting);
        before(meeting, end(member.rank, member.step));
      }
      ++meeting;
    }
    events_ = meeting;
    index_edges();
  }

  /// A topological order; shorter than events() when there is a circle.
  std::vector<std::uint32_t> order() const {
    std::vector<std::uint32_t> waits(events_, 0);
    for (const auto& [earlier, later] : edges_) ++waits[later];
    std::vector<std::uint32_t> ordered;
    ordered.reserve(events_);
    for (std::uint32_t event = 0; event < events_; ++event) {
      if (waits[event] == 0) ordered.push_back(event);
    }
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      for (std::uint32_t e = begin_[ordered[i]]; e < begin_[ordered[i] + 1]; ++e) {
        if (--waits[later_[e]] == 0) ordered.push_back(later_[e]);
      }
    }
    return ordered;
  }

  /// The events of one circle among those that `ordered` lacks.
  std::vector<std::uint32_t> circle(const std::vector<std::uint32_t>& ordered) const {
    std::vector<bool> done(events_, false);
    for (std::uint32_t event : ordered) done[event] = true;
    // Each event that is not done waits for another such one: walk back until one repeats.
    std::vector<std::uint32_t> blocker(events_, 0);
    for (const auto& [earlier, later] : edges_) {
      if (!done[earlier]) blocker[later] = earlier;
    }
    const auto stuck = std::find(done.begin(), done.end(), false) - done.begin();
    auto event = static_cast<std::uint32_t>(stuck);
    std::vector<std::uint32_t> path;
    std::vector<bool> seen(events_, false);
    for (; !seen[event]; event = blocker[event]) {
      seen[event] = true;
      path.push_back(event);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), event));
    return path;
  }

  std::uint32_t events() const { return events_; }
  const std::vector<std::uint32_t>& first_step() const { return first_step_; }

 private:
  std::uint32_t start(std::uint32_t rank, std::uint32_t step) const { return 2 * (first_step_[rank] + step); }
  std::uint32_t end(std::uint32_t rank, std::uint32_t step) const { return start(rank, step) + 1; }
  void before(std::uint32_t earlier, std::uint32_t later) { edges_.emplace_back(earlier, later); }

  void add_steps(const Schedule& schedule, std::uint32_t rank) {
    for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
      before(start(rank, step), end(rank, step));
      for (std::uint32_t i = schedule.dependants_begin[step]; i < schedule.dependants_begin[step + 1]; ++i) {
        before(end(rank, step), start(rank, schedule.dependants[i]));
      }
    }
  }

  void add_messages(const Schedule& schedule, std::uint32_t rank, const Wiring& wiring) {
    for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
      if (schedule.steps[step].kind != StepKind::kSend) continue;
      const auto peer = static_cast<std::uint32_t>(schedule.steps[step].peer);
      const std::uint32_t other = wiring.other[rank][step];
      before(start(rank, step), end(peer, other));
      before(start(peer, other), end(rank, step));
    }
  }

  void add_lanes(const Schedule& schedule, std::uint32_t rank) {
    std::map<std::pair<std::uint32_t, std::uint8_t>, std::uint32_t> last;
    for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
      const Step& what = schedule.steps[step];
      if (what.kind != StepKind::kGroup) continue;
      const auto [entry, is_first] = last.try_emplace({what.group, what.lane}, step);
      if (!is_first) before(start(rank, entry->second), start(rank, step));
      entry->second = step;
    }
  }

  void index_edges() {
    begin_.assign(events_ + 1, 0);
    for (const auto& [earlier, later] : edges_) ++begin_[earlier + 1];
    for (std::uint32_t event = 0; event < events_; ++event) begin_[event + 1] += begin_[event];
    later_.resize(edges_.size());
    std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [earlier, later] : edges_) later_[next[earlier]++] = later;
  }

  std::vector<std::uint32_t> first_step_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
  std::vector<std::uint32_t> begin_, later_;  ///< CSR: of each event, those that wait for it
  std::uint32_t events_ = 0;
};

}  // namespace

StepRef EventOrder::step_of(std::uint32_t event) const {
  const std::uint32_t step = event / 2;
  const auto rank = std::upper_bound(first_step.begin(), first_step.end(), step) - first_step.begin() - 1;
  return {static_cast<std::uint32_t>(rank), step - first_step[static_cast<std::size_t>(rank)]};
}

Result<EventOrder> order_events(const Program& program, const Wiring& wiring) {
  const EventGraph graph(program, wiring);
  EventOrder order{graph.first_step(), graph.order()};
  const std::uint32_t step_events = 2 * order.first_step.back();
  if (order.events.size() == graph.events()) {
    std::erase_if(order.events, [&](std::uint32_t event) { return event >= step_events; });
    return order;
  }
  std::string text = "deadlock: ";
  constexpr int kLongest = 8;
  int shown = 0;
  StepRef last{Wiring::kNone, Wiring::kNone};
  StepRef first = last;
  for (std::uint32_t event : graph.circle(order.events)) {
    if (event >= step_events) continue;
    const StepRef step = order.step_of(event);
    if (step == last || step == first) continue;
    last = step;
    if (shown == 0) first = step;
    if (shown++ < kLongest) text += describe(program, step) + " waits for ";
  }
  if (shown > kLongest) text += fmt::format("{} more, which wait for ", shown - kLongest);
  return internal_error(text + "the first of these");
}

}  // namespace foldcast::schedule
