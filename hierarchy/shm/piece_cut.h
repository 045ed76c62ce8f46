#pragma once

#include <cstdint>

#include "core/base/engine.h"
#include "core/schedule/step.h"

namespace foldcast::hierarchy {

/// How the bytes of one call flow through the slots.
enum class Flow : std::uint8_t {
  kExchange,   ///< all publish everything and all reduce everything: small all_reduce, barrier
  kScatter,    ///< all publish what others own, owners reduce: reduce_scatter
  kFoldCast,   ///< as kScatter into the owners' slots, then all copy from there: large all_reduce
  kGather,     ///< owners publish their shard, all copy: all_gather
  kBroadcast,  ///< the root publishes, all copy
};

/// One call cut into pieces that fit a slot. Shards are cut from the whole call, as schedules cut them; piece j holds,
/// for each owner s, part j of shard s: every piece gives every owner work, and an owner's parts add up to its shard.
class PieceCut {
 public:
  PieceCut() = default;
  /// Of a valid call (see ShmNodeGroup::post) in a group of `size` with slots of `slot_bytes`.
  PieceCut(const EngineCall& call, std::uint32_t size, std::uint64_t slot_bytes);

  Flow flow() const { return flow_; }
  std::uint32_t owners() const { return owners_; }
  std::uint64_t pieces() const { return pieces_; }  ///< at least 1: a call without elements still meets its peers
  std::uint64_t element_bytes() const { return element_bytes_; }

  /// The elements of the call that piece `piece` carries of shard `owner`.
  schedule::ElementRange part(std::uint32_t owner, std::uint64_t piece) const {
    schedule::ElementRange shard{0, count_};
    if (owners_ > 1) shard = {schedule::cut(count_, owner, owners_), schedule::cut(count_, owner + 1ull, owners_)};
    if (pieces_ == 1) return shard;
    return {shard.first + schedule::cut(shard.size(), piece, pieces_),
            shard.first + schedule::cut(shard.size(), piece + 1, pieces_)};
  }
  /// Where in the payload of a slot the part of `owner` lies.
  std::uint64_t offset(std::uint32_t owner) const { return owner * stride_; }
  /// True when the payload is in the slot's header line.
  bool is_inline() const { return inline_; }

 private:
  Flow flow_ = Flow::kExchange;
  bool inline_ = true;
  std::uint32_t owners_ = 1;
  std::uint64_t count_ = 0;
  std::uint64_t element_bytes_ = 1;
  std::uint64_t pieces_ = 1;
  std::uint64_t stride_ = 0;
};

}  // namespace foldcast::hierarchy
