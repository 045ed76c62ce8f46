#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/schedule/contract.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// An element that is combined in three ways at once: summed exactly; under an operation that is neither commutative
/// nor associative, as a stand-in for floating point, so that equal folds mean equal bits; and as x -> mul x + add,
/// which is associative but does not commute, so that its value tells the operands' order.
struct Element {
  std::uint64_t sum = 0;
  std::uint64_t fold = 0;
  std::uint64_t mul = 1, add = 0;
  friend bool operator==(const Element&, const Element&) = default;
};
Element combine(const Element& a, const Element& b);
/// What arrives in a format of less precision: fewer bits of `fold`.
Element rounded(const Element& element);

/// One run of a program on real memory, in an order that a random generator picks among the legal ones, without use of
/// the verifier's code. Unwritten memory holds random values. Steps take their operands at a random time between start
/// and end, and messages are buffered or not, as it comes.
struct RunOptions {
  Contract contract;
  std::uint64_t count = 0;  ///< of the whole; where it has blocks, a multiple of the number of ranks
  bool in_place = false;    ///< on ranks whose schedule allows it
  bool in_order = false;    ///< reductions must keep the order of the ranks
};

/// Empty when every rank ends as the contract says, with nothing else changed; else what went wrong.
std::string run_randomly(const Program& program, const RunOptions& options, std::mt19937_64& random);

}  // namespace foldcast::schedule
