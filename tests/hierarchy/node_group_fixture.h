#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "hierarchy/shm/shm_engine.h"
#include "hierarchy/shm/shm_node_group.h"

namespace foldcast::hierarchy {

/// Fresh for each run; printed by the fixture when a test fails.
std::uint64_t fresh_seed();

/// A name no other group on this machine has.
std::string fresh_name();

/// One collective as a test asks for it.
struct Case {
  Verb verb = Verb::kAllReduce;
  Datatype dtype = Datatype::kInt32;
  ReduceOp op = ReduceOp::kSum;
  std::uint64_t count = 0;
  std::uint16_t owners = 1;
  std::int32_t root = 0;
  bool in_place = false;
  bool lean = false;                  ///< buffers that are not needed are null
  std::vector<std::uint64_t> cuts{};  ///< of uneven shards
  std::uint8_t lane = 0;
  std::uint64_t sequence = 0;
};
std::string describe(const Case& one);
/// The nearest case that a group of `size` takes.
Case fit(Case one, int size);
/// A user's op that gives the left operand: associative, and wrong in any other order than that of the ranks.
/// Registered once, for good.
ReduceOp left_op();

/// One rank's buffers for a case: random small numbers that every dtype holds exactly, guard bytes around, and the
/// expected output computed serially from what all ranks put in.
class Exchange {
 public:
  Exchange(const Case& one, std::uint32_t rank, std::uint32_t size, std::uint64_t seed);
  EngineCall call();
  /// Empty when output, guards and input are as they must be, else what is wrong.
  std::string check() const;
  /// Empty when the output is as it was made.
  std::string check_untouched() const;

 private:
  std::uint64_t cut(std::uint64_t owner) const;
  double combine(double left, double right) const;
  bool reads_input() const;
  bool writes_output() const;
  double value(std::uint32_t rank, std::uint64_t index) const;
  double expected(std::uint64_t index, double before) const;
  std::string compare(const std::vector<std::byte>& wanted) const;

  Case case_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint64_t seed_;
  std::size_t begin_ = 0;  ///< of the elements, in input_ and memory_
  std::vector<std::byte> input_;
  std::vector<std::byte> memory_;    ///< guard, output, guard
  std::vector<std::byte> original_;  ///< as memory_ was made
};

/// Polls, asleep in between, until `count` calls ended; nothing when that takes longer than a minute.
std::optional<std::vector<Completion>> finish(NodeGroup& group, std::size_t count);
/// Posts one case and waits for it; empty when all is well.
std::string run_case(NodeGroup& group, const Case& one, std::uint64_t seed);

/// Whether every thread maps the segment for itself, as processes do, or all share one mapping, so that a race detector
/// sees their accesses meet.
enum class Mapping { kEach, kShared };

/// Runs `body` as every rank of a new group, a thread each.
void as_threads(const ShmOptions& options, Mapping mapping, const std::function<void(NodeGroup&)>& body);

}  // namespace foldcast::hierarchy
