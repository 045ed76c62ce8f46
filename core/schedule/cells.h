#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/footprint.h"
#include "core/schedule/schedule.h"
#include "core/schedule/wiring.h"

namespace foldcast::schedule {

/// All places where any step of a program cuts a whole, ascending: between two of them lies a *cell*, which every step
/// touches wholly or not at all. Cells do not straddle blocks; where messages cross from block to block, all blocks are
/// cut alike.
class Cells {
 public:
  /// The chunks of `program` must be valid.
  Cells(const Program& program, const Blocks& blocks);

  struct Range {
    std::uint32_t first = 0, last = 0;
    std::uint32_t size() const { return last - first; }
    bool has(const Range& other) const { return first <= other.first && other.last <= last; }
  };
  std::uint32_t count() const { return static_cast<std::uint32_t>(cuts_.size() - 1); }
  /// The cells of a region that a step of the program (or a shard of one) has, or of a block.
  Range of(const Region& region) const { return {at(region.first), at(region.last)}; }
  /// Which block a cell is in.
  std::uint32_t block_of(std::uint32_t cell) const {
    return static_cast<std::uint32_t>(cuts_[cell].part * blocks_ / cuts_[cell].of);
  }
  /// "from 1/4 to 1/2 of the fragment".
  std::string name(std::uint32_t cell) const;

 private:
  std::uint32_t at(const Cut& cut) const {
    return static_cast<std::uint32_t>(std::lower_bound(cuts_.begin(), cuts_.end(), cut) - cuts_.begin());
  }

  std::uint32_t blocks_;
  std::vector<Cut> cuts_;
};

}  // namespace foldcast::schedule
