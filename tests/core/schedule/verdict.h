#pragma once

#include <string>

#include "core/schedule/verify.h"

namespace foldcast::schedule {

inline constexpr Chunk kInput{Space::kInput, 0, 1, 1};
inline constexpr Chunk kOutput{Space::kOutput, 0, 1, 1};

/// What verify_all_reduce has against a program, or "accepted".
inline std::string error_of(const Program& program) {
  const Status verified = verify(program, {}).status();
  return verified.ok() ? "accepted" : verified.message();
}

/// How its messages name a step.
inline std::string at(std::uint32_t rank, std::uint32_t step) {
  return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + " (";
}

}  // namespace foldcast::schedule
