#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/transports/ranks.h"

namespace foldcast::transports {

/// The suite that every backend passes: what transports/transport.h promises.
class TransportContract : public ::testing::TestWithParam<Backend> {
 protected:
  Bytes random_;
};

inline constexpr std::byte kGuard{0x5a};

/// A receive buffer with guard bytes on both sides.
struct Guarded {
  explicit Guarded(std::size_t room) : memory(room + 2 * kMargin, kGuard) {}
  std::byte* data() { return memory.data() + kMargin; }
  bool guards_intact() const {
    auto is_guard = [](std::byte byte) { return byte == kGuard; };
    return std::all_of(memory.begin(), memory.begin() + kMargin, is_guard) &&
           std::all_of(memory.end() - kMargin, memory.end(), is_guard);
  }
  bool untouched() const {
    return std::all_of(memory.begin(), memory.end(), [](std::byte byte) { return byte == kGuard; });
  }
  static constexpr std::ptrdiff_t kMargin = 64;
  std::vector<std::byte> memory;
};

}  // namespace foldcast::transports
