#pragma once

#include <memory>

#include "core/base/engine.h"
#include "core/base/group_caps.h"

namespace foldcast::hierarchy {

/// The ranks of one node that share memory, as an Engine that takes all verbs but kSend and kRecv. Large calls run
/// through the segment in pieces; several calls per lane may be outstanding.
///
/// Shard s of a call is elements [cut(count, s, owners), cut(count, s + 1, owners)) (see schedule/step.h for `cut`) or,
/// with `cuts`, [cuts[s], cuts[s + 1]); of verbs in which every rank owns one, owners is the group's size. A shard is
/// always at its place in the whole: buffers of which a rank has one shard alone are given by where element 0 of the
/// whole would be, and nothing but that shard is touched.
///
///   kAllReduce      everyone's `count` elements are reduced, to everyone.
///   kReduce         the same, to local rank `peer`; the others' output is not touched.
///   kReduceScatter  shard s is reduced to the output of local rank s, for s < owners.
///   kAllGather      local rank s < owners gives its shard; everyone gets all.
///   kGather         everyone gives its shard; local rank `peer` gets all.
///   kScatter        local rank `peer` gives all; everyone gets its shard.
///   kBroadcast      local rank `peer` gives all; everyone gets all.
///   kAllToAll       shard d of local rank s becomes shard s of local rank d; count is a multiple of the size.
///   kBarrier        has no buffers.
///
/// input may equal output in all of them; otherwise they do not overlap. What a rank neither reads nor writes may be
/// null. Reduction runs from left to right over the local ranks, with pairwise(op) or the user's function: kAvg is
/// divided by nobody here, kPremulSum was multiplied by the caller.
///
/// Every call meets all members: it completes when each has posted it and no output is written before all agree. One
/// that differs ends with kMismatch on every member, naming field, values and local ranks. A call that cannot be (null
/// buffer, unknown dtype, op that is not defined for the dtype, cuts that do not ascend) ends with kInvalidArgument
/// here alone, as if it had not been posted. A group serves one communicator. After a mismatch, or cancel() with
/// whatever number, it is dead: all outstanding and later calls end with kAborted. A member that died is not noticed
/// here: others make no progress until cancel().
///
/// Several groups of a rank may have one descriptor(), which they sleep on together: when it is readable each of them
/// must be polled before the rank sleeps again (after arm(), as ever). No group takes a ring that was for another, and
/// the descriptor of a rank that sleeps again without polling all stays readable. One owner thread calls all groups of
/// one descriptor.
class NodeGroup : public Engine {
 public:
  static constexpr std::uint8_t kLanes = 2;  ///< 0: up (reduce_scatter), 1: down (all_gather); others use either
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual GroupCaps caps() const = 0;
};

}  // namespace foldcast::hierarchy
