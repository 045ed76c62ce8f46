#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// An element that is summed exactly, and at the same time under an operation that is neither commutative nor
/// associative, as a stand-in for floating point: equal folds mean equal bits.
struct Element {
  std::uint64_t sum = 0;
  std::uint64_t fold = 0;
  friend bool operator==(const Element&, const Element&) = default;
};

/// One run of a program on real memory, in an order that a random generator picks among the legal ones, without use of
/// the verifier's code. Unwritten memory holds random values. Steps take their operands at a random time between start
/// and end, and messages are buffered or not, as it comes.
struct RunOptions {
  std::uint64_t count = 0;
  bool in_place = false;
};

/// Empty when every rank ends with the sum of all inputs and the same folds, else what went wrong.
std::string run_randomly(const Program& program, const RunOptions& options, std::mt19937_64& random);

}  // namespace foldcast::schedule
