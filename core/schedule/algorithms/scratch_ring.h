#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// `Size` scratch units taken in turn, and from the builder only when first used.
template <std::size_t Size>
class ScratchRing {
 public:
  /// `builder` must outlive this.
  explicit ScratchRing(Builder& builder) : builder_(builder) {}

  /// The place of `data` in the next unit.
  Chunk next(const Chunk& data) {
    const std::size_t slot = used_++ % Size;
    if (used_ <= Size) units_[slot] = builder_.scratch_unit();
    return in_scratch(data, units_[slot]);
  }

 private:
  Builder& builder_;
  std::array<std::uint32_t, Size> units_{};
  std::size_t used_ = 0;
};

}  // namespace foldcast::schedule
