#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// What a program costs, read off its steps. Bytes are fractions of the N bytes of a fragment, rounding apart. Group
/// steps join paths but cost nothing here: their engines have prices of their own.
struct ScheduleCost {
  std::uint32_t rounds = 0;         ///< messages one after another on the path with the most of them
  double critical_bytes = 0;        ///< bytes sent one after another on the path with the most of them
  double critical_reduced = 0;      ///< bytes reduced one after another on the path with the most of them
  double bytes_sent = 0;            ///< by the rank that sends most
  double bytes_received = 0;        ///< by the rank that receives most
  double bytes_reduced = 0;         ///< results written by reduce steps, of the rank that writes most
  std::uint32_t messages = 0;       ///< sends and receives of the rank that has most
  std::uint32_t scratch_units = 0;  ///< of the rank that needs most
};

/// Paths run along dependences and messages over the whole program; the sums over one rank count what its port and its
/// processor must do in any order, so a price is at least the larger of the two. kInternal for a program that does not
/// fit together (see wire) or deadlocks.
Result<ScheduleCost> cost_of(const Program& program);

}  // namespace foldcast::schedule
