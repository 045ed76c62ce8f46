#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/schedule/interpreter.h"

namespace foldcast::schedule {

/// What one rank's memory was before a run and is after it. In place there is only `input`, of the whole's size.
struct Memories {
  std::vector<Element> input_before, output_before, input, output;
  bool in_place = false;
  bool rounds = false;
};

/// Compares with a serial reference: outputs as the collective says, everything else unchanged. Empty, or what is
/// wrong.
std::string compare(const std::vector<Memories>& ranks, const RunOptions& options);

}  // namespace foldcast::schedule
