#include "tests/core/schedule/interpreter.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "tests/core/schedule/reference.h"

namespace foldcast::schedule {

Element combine(const Element& a, const Element& b) {
  return {a.sum + b.sum, a.fold * 0x9e3779b97f4a7c15u + (b.fold ^ (b.fold >> 29)) * 0xbf58476d1ce4e5b9u + 1,
          a.mul * b.mul, a.add * b.mul + b.add};
}

Element rounded(const Element& element) {
  Element result = element;
  result.fold &= ~std::uint64_t{0xfff};
  return result;
}

namespace {

enum class Phase : std::uint8_t { kWaiting, kStarted, kTaken, kEnded };

struct StepState {
  std::uint32_t waits = 0;
  Phase phase = Phase::kWaiting;
  std::vector<Element> taken;
};

struct RankState {
  Memories memories;
  std::vector<Element> scratch;
  std::vector<StepState> steps;
  std::vector<std::int64_t> other;  ///< of sends and receives: the other side's step, or -1
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
        for (Element& element : memory) element = {random(), random(), random() | 1, random()};
      };
      Memories& memories = rank.memories;
      memories.in_place = options.in_place && !schedule.memory.apart;
      memories.rounds = schedule.memory.rounds;
      fill(memories.input, options.count);
      fill(memories.output, memories.in_place ? 0 : options.count);
      memories.input_before = memories.input;
      memories.output_before = memories.output;
      fill(rank.scratch, options.count * schedule.scratch_units);
      for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
        StepState state;
        state.waits = schedule.dependences[i];
        rank.steps.push_back(state);
        const Step& step = schedule.steps[i];
        if (step.kind == StepKind::kGroup) rank.lanes[{step.group, step.lane}].push_back(i);
      }
      rank.other.assign(schedule.steps.size(), -1);
      ranks_.push_back(std::move(rank));
    }
    match_messages();
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
    std::vector<Memories> memories;
    for (RankState& rank : ranks_) memories.push_back(std::move(rank.memories));
    return compare(memories, options_);
  }

 private:
  const Step& step_at(std::uint32_t rank, std::uint32_t step) const { return program_.ranks[rank].steps[step]; }

  Element* at(std::uint32_t rank, const Chunk& chunk) {
    const ElementRange range = elements_of(chunk, options_.count);
    RankState& state = ranks_[rank];
    if (chunk.space == Space::kScratch) return state.scratch.data() + range.first;
    Memories& memories = state.memories;
    const bool is_input = chunk.space == Space::kInput || memories.in_place;
    return (is_input ? memories.input : memories.output).data() + range.first;
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

  void match_messages() {
    using Key = std::tuple<std::uint32_t, std::int32_t, std::uint32_t, std::uint32_t>;  // sender, receiver
    std::map<Key, std::pair<std::uint32_t, std::uint32_t>> receives;
    const auto each = [&](StepKind kind, const auto& visit) {
      for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        for (std::uint32_t i = 0; i < ranks_[rank].steps.size(); ++i) {
          if (step_at(rank, i).kind == kind) visit(rank, i, step_at(rank, i));
        }
      }
    };
    each(StepKind::kRecv, [&](std::uint32_t rank, std::uint32_t i, const Step& step) {
      receives[{static_cast<std::uint32_t>(step.peer), static_cast<std::int32_t>(rank), step.channel, step.ordinal}] = {
          rank, i};
    });
    each(StepKind::kSend, [&](std::uint32_t rank, std::uint32_t i, const Step& step) {
      const auto found = receives.find({rank, step.peer, step.channel, step.ordinal});
      if (found == receives.end()) return;
      const auto [receiver, j] = found->second;
      ranks_[rank].other[i] = j;
      ranks_[receiver].other[j] = i;
    });
  }

  bool take(std::uint32_t rank, std::uint32_t index) {
    StepState& state = ranks_[rank].steps[index];
    const Step& step = step_at(rank, index);
    switch (step.kind) {
      case StepKind::kRecv:
        return true;
      case StepKind::kSend:
        state.taken = load(rank, step.a);
        if (!ranks_[rank].memories.rounds) return true;
        for (Element& element : state.taken) element = rounded(element);
        if (step.a.space != Space::kInput) store(rank, step.a, state.taken);
        return true;
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
        const std::int64_t other = ranks_[rank].other[index];
        return other >= 0 && ranks_[static_cast<std::size_t>(step.peer)].steps[static_cast<std::size_t>(other)].phase !=
                                 Phase::kWaiting;
      }
      case StepKind::kRecv: {
        const std::int64_t other = ranks_[rank].other[index];
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
    if (step.verb != Verb::kBarrier) deliver(rank, step, self, given);
    return true;
  }

  /// What a call of a group gives its member `self`, when all have given theirs.
  void deliver(std::uint32_t rank, const Step& step, std::size_t self,
               const std::vector<const std::vector<Element>*>& given) {
    const std::uint64_t size = size_of(step.target);
    Element* output = at(rank, step.target);
    const auto begin = [&](std::uint64_t shard) { return cut(size, shard, std::max<std::uint64_t>(1, step.owners)); };
    const auto root = static_cast<std::size_t>(std::max(step.peer, 0));
    /// Elements [first, last) of the target, as `make` gives them.
    const auto fill = [&](std::uint64_t first, std::uint64_t last, const auto& make) {
      for (std::uint64_t i = first; i < last; ++i) output[i] = make(i);
    };
    const auto sum = [&](std::uint64_t i) {
      Element total = (*given[0])[i];
      for (std::size_t m = 1; m < given.size(); ++m) total = combine(total, (*given[m])[i]);
      return total;
    };
    switch (step.verb) {
      case Verb::kAllReduce:
        return fill(0, size, sum);
      case Verb::kReduce:
        return self == root ? fill(0, size, sum) : void();
      case Verb::kReduceScatter:
        return self < step.owners ? fill(begin(self), begin(self + 1), sum) : void();
      case Verb::kBroadcast:
        return fill(0, size, [&](std::uint64_t i) { return (*given[root])[i]; });
      case Verb::kScatter:
        return fill(begin(self), begin(self + 1), [&](std::uint64_t i) { return (*given[root])[i]; });
      case Verb::kGather:
        if (self != root) return;
        [[fallthrough]];
      case Verb::kAllGather:
        for (std::uint64_t owner = 0; owner < step.owners; ++owner) {
          fill(begin(owner), begin(owner + 1), [&](std::uint64_t i) { return (*given[owner])[i]; });
        }
        return;
      case Verb::kAllToAll:
        for (std::uint64_t from = 0; from < step.owners; ++from) {
          fill(begin(from), begin(from + 1),
               [&](std::uint64_t i) { return (*given[from])[begin(self) + i - begin(from)]; });
        }
        return;
      case Verb::kBarrier:
      case Verb::kSend:
      case Verb::kRecv:
        return;
    }
  }

  const Program& program_;
  const RunOptions options_;
  std::mt19937_64& random_;
  bool buffered_;
  int idle_ = 0;
  std::vector<RankState> ranks_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> active_;
};

}  // namespace

std::string run_randomly(const Program& program, const RunOptions& options, std::mt19937_64& random) {
  return Run(program, options, random).run();
}

}  // namespace foldcast::schedule
