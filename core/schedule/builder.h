#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// Writes one rank's schedule. Steps are appended in program order; the builder infers dependences from the regions
/// each step reads and writes (read after write, write after read, write after write), taking input and output as the
/// same memory unless told otherwise, so that every schedule is right in place as well. Nobody writes edges by hand.
class Builder {
 public:
  /// `rank` of the communicator that runs the schedule.
  explicit Builder(std::int32_t rank) : rank_(rank) {}

  std::int32_t rank() const { return rank_; }
  /// What is sent travels in a format of less precision, and what is sent from the output or scratch is rounded there
  /// as well, so that the sender keeps what the others get. Such a send counts as a write of its source.
  void set_rounding(bool rounds) { memory_.rounds = rounds; }
  bool rounding() const { return memory_.rounds; }
  /// Input and output are different memory: steps on one do not wait for steps on the other, and the schedule is wrong
  /// in place.
  void set_apart(bool apart) { memory_.apart = apart; }
  void send(std::int32_t peer, Chunk source, std::uint32_t channel = 0);
  void recv(std::int32_t peer, Chunk target, std::uint32_t channel = 0);
  /// target = a op b. `target` may be `a` or `b`.
  void reduce(Chunk target, Chunk a, Chunk b);
  /// Does nothing for equal chunks, nor for input to output of the same part when in place (the executor skips it).
  void copy(Chunk target, Chunk source);
  struct GroupStep {
    Verb verb = Verb::kAllReduce;
    std::uint32_t group = 0;
    std::uint8_t lane = 0;
    std::uint16_t owners = 0;
    std::int32_t root = -1;
    Chunk source = {};
    Chunk target = {};
  };
  void group(const GroupStep& step);
  /// The number of a fresh scratch unit: memory as long as the whole. Its part i of `of` is {kScratch, unit*of + i,
  /// of}.
  std::uint32_t scratch_unit();

  /// Ends the schedule. The builder is empty afterwards.
  Schedule finish();

 private:
  void append(Step step);

  std::int32_t rank_;
  MemoryRules memory_;
  std::vector<Step> steps_;
  std::uint32_t scratch_units_ = 0;
  std::map<std::pair<std::int32_t, std::uint32_t>, std::uint32_t> sent_, received_;
};

}  // namespace foldcast::schedule
