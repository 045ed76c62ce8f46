#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/schedule/cells.h"
#include "core/schedule/contract.h"

namespace foldcast::schedule {

/// A contract, cell by cell: which parts of the whole each rank's buffers have, and whose input must end where.
class Obligation {
 public:
  Obligation(const Contract& contract, std::uint32_t ranks) : kind_(scheduled_as(contract.kind)), ranks_(ranks) {
    root_ = static_cast<std::uint32_t>(contract.root);
  }
  /// kInvalidArgument for a contract that does not fit that many ranks.
  static Status check(const Contract& contract, std::size_t ranks);

  Blocks blocks() const { return {has_blocks(kind_) ? ranks_ : 1, kind_ == Collective::kAllToAll}; }
  bool reduces() const { return foldcast::reduces(kind_); }
  /// All ranks' outputs must have the same bits.
  bool replicates() const {
    return kind_ == Collective::kAllReduce || kind_ == Collective::kBroadcast || kind_ == Collective::kAllGather;
  }

  /// The cells that are in a rank's input, or output.
  Cells::Range input(const Cells& cells, std::uint32_t rank) const;
  Cells::Range output(const Cells& cells, std::uint32_t rank) const;

  /// How many different inputs there are, and which one a cell of a rank's input holds.
  std::uint32_t inputs() const { return blocks().crosses ? ranks_ * ranks_ : ranks_; }
  std::uint32_t input_number(const Cells& cells, std::uint32_t rank, std::uint32_t cell) const;
  /// Where nothing is reduced: the input that a cell of a rank's output must hold in the end.
  std::uint32_t expected(const Cells& cells, std::uint32_t rank, std::uint32_t cell) const;
  /// "rank 3", "block 2 of rank 3".
  std::string name(std::uint32_t input_number) const;

 private:
  enum class Extent : std::uint8_t { kNone, kOwnBlock, kWhole };
  Cells::Range range(const Cells& cells, Extent extent, std::uint32_t rank) const;

  Collective kind_;
  std::uint32_t ranks_;
  std::uint32_t root_ = 0;
};

}  // namespace foldcast::schedule
