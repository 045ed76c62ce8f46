#include "core/schedule/builder.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

/// Finds what each step must wait for, step by step in program order. Keeps only the accesses that a later step can
/// still be the first to conflict with: one that is wholly overwritten is ordered before everything behind the writer.
class DependenceInference {
 public:
  explicit DependenceInference(std::size_t steps) : words_((steps + 63) / 64), ancestors_(steps * words_) {}

  /// The least set of earlier steps that orders `step` after all it conflicts with, ascending. Steps come 0, 1, 2...
  std::vector<std::uint32_t> add(std::uint32_t step, const Footprint& footprint) {
    std::vector<std::uint32_t> conflicting;
    if (fence_ != kNone) conflicting.push_back(fence_);
    if (footprint.fence) {
      for (std::uint32_t earlier = 0; earlier < step; ++earlier) conflicting.push_back(earlier);
      live_.clear();
      fence_ = step;
    }
    for (std::uint8_t i = 0; i < footprint.read_count; ++i) read(footprint.reads[i], conflicting);
    for (std::uint8_t i = 0; i < footprint.write_count; ++i) write(footprint.writes[i], conflicting);
    for (std::uint8_t i = 0; i < footprint.read_count; ++i) live_.push_back({footprint.reads[i], step, false});
    for (std::uint8_t i = 0; i < footprint.write_count; ++i) live_.push_back({footprint.writes[i], step, true});
    return reduced(step, std::move(conflicting));
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Access {
    Region region;
    std::uint32_t step;
    bool writes;
  };

  void read(const Region& region, std::vector<std::uint32_t>& conflicting) const {
    for (const Access& access : live_) {
      if (access.writes && overlap(access.region, region)) conflicting.push_back(access.step);
    }
  }

  void write(const Region& region, std::vector<std::uint32_t>& conflicting) {
    std::erase_if(live_, [&](const Access& access) {
      if (!overlap(access.region, region)) return false;
      conflicting.push_back(access.step);
      return covers(region, access.region);
    });
  }

  /// Without those that another one already waits for: each edge costs the executor a counter update.
  std::vector<std::uint32_t> reduced(std::uint32_t step, std::vector<std::uint32_t> conflicting) {
    std::sort(conflicting.begin(), conflicting.end(), std::greater<>());
    std::vector<std::uint32_t> kept;
    std::uint64_t* mine = &ancestors_[step * words_];
    for (std::uint32_t earlier : conflicting) {
      if (mine[earlier / 64] >> (earlier % 64) & 1) continue;
      kept.push_back(earlier);
      const std::uint64_t* theirs = &ancestors_[earlier * words_];
      for (std::size_t word = 0; word <= earlier / 64; ++word) mine[word] |= theirs[word];
      mine[earlier / 64] |= std::uint64_t{1} << (earlier % 64);
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  std::size_t words_;
  std::vector<std::uint64_t> ancestors_;  ///< a bit set a step: all it waits for, directly or not
  std::vector<Access> live_;
  std::uint32_t fence_ = kNone;
};

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
  schedule.rounds = rounds_;
  schedule.apart = apart_;
  const std::size_t count = schedule.steps.size();

  DependenceInference inference(count);
  std::vector<std::vector<std::uint32_t>> waits_for;
  waits_for.reserve(count);
  schedule.dependants_begin.assign(count + 1, 0);
  for (std::uint32_t step = 0; step < count; ++step) {
    waits_for.push_back(inference.add(step, footprint_of(schedule.steps[step])));
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
