#pragma once

#include <memory>

#include "core/base/engine.h"
#include "core/base/group_caps.h"

namespace foldcast::hierarchy {

/// The ranks of one node that share memory, as an Engine that takes kAllReduce, kReduceScatter, kAllGather, kBroadcast
/// and kBarrier. Large calls run through the segment in pieces; several calls per lane may be outstanding.
///
/// kReduceScatter: input = `count` elements; shard s is elements [cut(count,s,owners), cut(count,s+1,owners)) (see
/// schedule/step.h for `cut`); on owner s the reduced shard is written to the same place in `output` (nothing else of
/// output is touched); on others nothing is. kAllGather: owner s gives its shard at its place in `input`; all get all
/// shards at their place in `output`. input may equal output everywhere.
/// Reduction runs in the order of local ranks with pairwise(op): kAvg is divided by nobody here.
///
/// Every call meets all members: it completes when each has posted it and no output is written before all agree. One
/// that differs ends with kMismatch on every member, naming field, values and local ranks. A call that cannot be (null
/// buffer, unknown dtype) ends with kInvalidArgument here alone, as if it had not been posted. A group serves one
/// communicator. After a mismatch, or cancel() with whatever number, it is dead: all outstanding and later calls end
/// with kAborted. A member that died is not noticed here: others make no progress until cancel().
class NodeGroup : public Engine {
 public:
  static constexpr std::uint8_t kLanes = 2;  ///< 0: up (reduce_scatter), 1: down (all_gather); others use either
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual GroupCaps caps() const = 0;
};

}  // namespace foldcast::hierarchy
