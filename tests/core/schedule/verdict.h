#pragma once

#include <string>

#include "core/schedule/verify.h"

namespace foldcast::schedule {

inline constexpr Chunk kInput{Space::kInput, 0, 1, 1};
inline constexpr Chunk kOutput{Space::kOutput, 0, 1, 1};

/// What the verifier has against a program, or "accepted".
inline std::string error_of(const Program& program, const Contract& contract = {}) {
  const auto proof = verify(program, contract);
  return proof.ok() ? "accepted" : proof.status().message();
}

/// How its messages name a step.
inline std::string at(std::uint32_t rank, std::uint32_t step) {
  return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + " (";
}

}  // namespace foldcast::schedule
