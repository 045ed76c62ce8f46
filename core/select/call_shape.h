#pragma once

#include <cstdint>

#include "core/base/collective.h"

namespace foldcast::select {

/// What of a call decides which plan it runs as. Equal on all ranks, but for `in_place`, which only says where messages
/// land.
struct CallShape {
  Collective kind = Collective::kAllReduce;
  Datatype dtype = Datatype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  WireFormat wire = WireFormat::kExact;
  bool in_place = true;   ///< input and output may share memory
  bool in_order = false;  ///< the op is not commutative
  std::int32_t root = 0;
  std::uint64_t count = 0;  ///< of the buffer, or of each block; the mean where each rank knows all counts, else 0

  /// Bytes of the whole that a schedule works on, in a communicator of `size` ranks.
  std::uint64_t bytes(std::size_t size) const { return count * size_of(dtype) * (has_blocks(kind) ? size : 1); }
};

}  // namespace foldcast::select
