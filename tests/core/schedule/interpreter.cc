#include "tests/core/schedule/interpreter.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace foldcast::schedule {
namespace {

Element combine(const Element& a, const Element& b) {
  return {a.sum + b.sum, a.fold * 0x9e3779b97f4a7c15u + (b.fold ^ (b.fold >> 29)) * 0xbf58476d1ce4e5b9u + 1};
}

enum class Phase : std::uint8_t { kWaiting, kStarted, kTaken, kEnded };

struct StepState {
  std::uint32_t waits = 0;
  Phase phase = Phase::kWaiting;
  std::vector<Element> taken;
};

struct RankState {
  std::vector<Element> input, output, scratch;
  std::vector<StepState> steps;
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::vector<std::uint32_t>> lanes;  ///< group steps in program order
};

class Run {
 public:
  Run(const Program& program, const RunOptions& options, std::mt19937_64& random)
      : program_(program), options_(options), random_(random), buffered_(random() % 2 == 0) {
    for (const Schedule& schedule : program.ranks) {
      RankState rank;
      auto fill = [&](std::vector<Element>& memory, std::uint64_t size) {
        memory.resize(size);
        for (Element& element : memory) element = {random(), random()};
      };
      fill(rank.input, options.count);
      fill(rank.output, options.in_place ? 0 : options.count);
      fill(rank.scratch, options.count * schedule.scratch_units);
      for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
        StepState state;
        state.waits = schedule.dependences[i];
        rank.steps.push_back(state);
        const Step& step = schedule.steps[i];
        if (step.kind == StepKind::kGroup) rank.lanes[{step.group, step.lane}].push_back(i);
      }
      ranks_.push_back(std::move(rank));
    }
    expected_.resize(options.count);
    for (const RankState& rank : ranks_) {
      for (std::uint64_t i = 0; i < options.count; ++i) expected_[i] += rank.input[i].sum;
    }
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::uint32_t step = 0; step < ranks_[rank].steps.size(); ++step) active_.push_back({rank, step});
    }
  }

  std::string run() {
    while (!active_.empty()) {
      // A random walk over what may happen next: shuffle, take the first that can move.
      std::shuffle(active_.begin(), active_.end(), random_);
      const std::size_t before = active_.size();
      bool moved = false;
      for (const auto& [rank, step] : active_) {
        if (random_() % 4 == 0) continue;
        if (advance(rank, step)) moved = true;
      }
      std::erase_if(active_,
                    [&](const auto& where) { return ranks_[where.first].steps[where.second].phase == Phase::kEnded; });
      if (moved || active_.size() != before) {
        idle_ = 0;
      } else if (++idle_ > 64) {
        return "stuck with " + std::to_string(active_.size()) + " steps left";
      }
    }
    return compare();
  }

 private:
  const Step& step_at(std::uint32_t rank, std::uint32_t step) const { return program_.ranks[rank].steps[step]; }

  Element* at(std::uint32_t rank, const Chunk& chunk) {
    const ElementRange range = elements_of(chunk, options_.count);
    RankState& state = ranks_[rank];
    if (chunk.space == Space::kScratch) return state.scratch.data() + range.first;
    return (chunk.space == Space::kInput || options_.in_place ? state.input : state.output).data() + range.first;
  }
  std::uint64_t size_of(const Chunk& chunk) const { return elements_of(chunk, options_.count).size(); }

  std::vector<Element> load(std::uint32_t rank, const Chunk& chunk) {
    const Element* from = at(rank, chunk);
    return {from, from + size_of(chunk)};
  }
  void store(std::uint32_t rank, const Chunk& chunk, const std::vector<Element>& values) {
    std::copy_n(values.begin(), std::min<std::uint64_t>(values.size(), size_of(chunk)), at(rank, chunk));
  }

  bool advance(std::uint32_t rank, std::uint32_t index) {
    StepState& state = ranks_[rank].steps[index];
    const Step& step = step_at(rank, index);
    switch (state.phase) {
      case Phase::kWaiting:
        if (state.waits > 0 || !lane_is_free(rank, index)) return false;
        state.phase = Phase::kStarted;
        return true;
      case Phase::kStarted:
        if (!take(rank, index)) return false;
        state.phase = Phase::kTaken;
        return true;
      case Phase::kTaken:
        if (!finish(rank, index, step)) return false;
        state.phase = Phase::kEnded;
        for (std::uint32_t i = program_.ranks[rank].dependants_begin[index];
             i < program_.ranks[rank].dependants_begin[index + 1]; ++i) {
          --ranks_[rank].steps[program_.ranks[rank].dependants[i]].waits;
        }
        return true;
      case Phase::kEnded:
        return false;
    }
    return false;
  }

  bool lane_is_free(std::uint32_t rank, std::uint32_t index) {
    const Step& step = step_at(rank, index);
    if (step.kind != StepKind::kGroup) return true;
    for (std::uint32_t other : ranks_[rank].lanes[{step.group, step.lane}]) {
      if (other == index) return true;
      if (ranks_[rank].steps[other].phase == Phase::kWaiting) return false;
    }
    return true;
  }

  /// The other side's step number of a message, or none.
  std::int64_t other_side(std::uint32_t rank, const Step& step) const {
    const StepKind kind = step.kind == StepKind::kSend ? StepKind::kRecv : StepKind::kSend;
    const auto& steps = program_.ranks[static_cast<std::size_t>(step.peer)].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == kind && steps[i].peer == static_cast<std::int32_t>(rank) &&
          steps[i].channel == step.channel && steps[i].ordinal == step.ordinal) {
        return static_cast<std::int64_t>(i);
      }
    }
    return -1;
  }

  bool take(std::uint32_t rank, std::uint32_t index) {
    StepState& state = ranks_[rank].steps[index];
    const Step& step = step_at(rank, index);
    switch (step.kind) {
      case StepKind::kRecv:
        return true;
      case StepKind::kSend:
      case StepKind::kCopy:
        state.taken = load(rank, step.a);
        return true;
      case StepKind::kReduce: {
        state.taken = load(rank, step.a);
        const std::vector<Element> second = load(rank, step.b);
        for (std::size_t i = 0; i < state.taken.size() && i < second.size(); ++i) {
          state.taken[i] = combine(state.taken[i], second[i]);
        }
        return true;
      }
      case StepKind::kGroup:
        if (step.verb != Verb::kBarrier) state.taken = load(rank, step.a);
        return true;
    }
    return true;
  }

  bool finish(std::uint32_t rank, std::uint32_t index, const Step& step) {
    StepState& state = ranks_[rank].steps[index];
    switch (step.kind) {
      case StepKind::kSend: {
        if (buffered_) return true;
        const std::int64_t other = other_side(rank, step);
        return other >= 0 && ranks_[static_cast<std::size_t>(step.peer)].steps[static_cast<std::size_t>(other)].phase !=
                                 Phase::kWaiting;
      }
      case StepKind::kRecv: {
        const std::int64_t other = other_side(rank, step);
        if (other < 0) return false;
        const StepState& sender = ranks_[static_cast<std::size_t>(step.peer)].steps[static_cast<std::size_t>(other)];
        if (sender.phase < Phase::kTaken) return false;
        store(rank, step.target, sender.taken);
        return true;
      }
      case StepKind::kReduce:
      case StepKind::kCopy:
        store(rank, step.target, state.taken);
        return true;
      case StepKind::kGroup:
        return finish_group(rank, index, step);
    }
    return false;
  }

  bool finish_group(std::uint32_t rank, std::uint32_t index, const Step& step) {
    const auto& lane = ranks_[rank].lanes[{step.group, step.lane}];
    const auto call = static_cast<std::size_t>(std::find(lane.begin(), lane.end(), index) - lane.begin());
    const auto& members = program_.groups[step.group].members;
    std::vector<const std::vector<Element>*> given;
    std::size_t self = 0;
    for (std::size_t m = 0; m < members.size(); ++m) {
      RankState& member = ranks_[static_cast<std::size_t>(members[m])];
      const auto& theirs = member.lanes[{step.group, step.lane}];
      if (theirs.size() <= call || member.steps[theirs[call]].phase < Phase::kTaken) return false;
      given.push_back(&member.steps[theirs[call]].taken);
      if (members[m] == static_cast<std::int32_t>(rank)) self = m;
    }
    if (step.verb == Verb::kBarrier) return true;
    if (step.verb == Verb::kBroadcast) {
      store(rank, step.target, *given[static_cast<std::size_t>(step.peer)]);
      return true;
    }
    const std::uint64_t size = size_of(step.target);
    Element* output = at(rank, step.target);
    if (step.verb == Verb::kAllGather) {
      for (std::uint64_t owner = 0; owner < step.owners; ++owner) {
        for (std::uint64_t i = cut(size, owner, step.owners); i < cut(size, owner + 1, step.owners); ++i) {
          output[i] = (*given[owner])[i];
        }
      }
      return true;
    }
    const bool sharded = step.verb == Verb::kReduceScatter;
    if (sharded && self >= step.owners) return true;
    const std::uint64_t first = sharded ? cut(size, self, step.owners) : 0;
    const std::uint64_t last = sharded ? cut(size, self + 1, step.owners) : size;
    for (std::uint64_t i = first; i < last; ++i) {
      Element sum = (*given[0])[i];
      for (std::size_t m = 1; m < given.size(); ++m) sum = combine(sum, (*given[m])[i]);
      output[i] = sum;
    }
    return true;
  }

  std::string compare() const {
    auto result = [&](std::size_t rank) -> const std::vector<Element>& {
      return options_.in_place ? ranks_[rank].input : ranks_[rank].output;
    };
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::uint64_t i = 0; i < options_.count; ++i) {
        const std::string where = "rank " + std::to_string(rank) + ", element " + std::to_string(i);
        if (result(rank)[i].sum != expected_[i]) return where + ": wrong sum";
        if (result(rank)[i].fold != result(0)[i].fold) return where + ": other bits than on rank 0";
      }
    }
    return {};
  }

  const Program& program_;
  const RunOptions options_;
  std::mt19937_64& random_;
  bool buffered_;
  int idle_ = 0;
  std::vector<RankState> ranks_;
  std::vector<std::uint64_t> expected_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> active_;
};

}  // namespace

std::string run_randomly(const Program& program, const RunOptions& options, std::mt19937_64& random) {
  return Run(program, options, random).run();
}

}  // namespace foldcast::schedule
