#pragma once

#include <cstdint>

#include "core/base/engine.h"
#include "core/schedule/step.h"

namespace foldcast::hierarchy {

/// How the bytes of one call flow through the slots. "All" are those whose result it is: of reduce and gather the root
/// alone.
enum class Flow : std::uint8_t {
  kExchange,   ///< everyone publishes everything, all reduce everything: small all_reduce and reduce, barrier
  kFold,       ///< everyone publishes what others own, owners reduce: reduce_scatter
  kFoldCast,   ///< as kFold, also into the owners' slots, then all copy from there: large all_reduce and reduce
  kGather,     ///< owners publish their shard, all copy: all_gather, gather
  kBroadcast,  ///< the root publishes, all copy
  kScatter,    ///< the root publishes what others own, owners copy
  kTurn,       ///< everyone publishes what others own, owners copy from everyone: all_to_all
};

/// One call cut into pieces that fit a slot. Shards are cut from the whole call, as schedules cut them or at the call's
/// own cuts; piece j holds, for each owner s, part j of shard s: every piece gives every owner work, and an owner's
/// parts add up to its shard. Parts begin a whole number of cache lines behind their shard's begin.
class PieceCut {
 public:
  PieceCut() = default;
  /// Of a valid call (see ShmNodeGroup::post) in a group of `size` with slots of `slot_bytes`.
  PieceCut(const EngineCall& call, std::uint32_t size, std::uint64_t slot_bytes);

  Flow flow() const { return flow_; }
  std::uint32_t owners() const { return owners_; }
  std::uint64_t pieces() const { return pieces_; }  ///< at least 1: a call without elements still meets its peers
  std::uint64_t element_bytes() const { return element_bytes_; }
  /// The local rank that publishes or, of reduce and gather, gets everything; -1 where none is special.
  std::int32_t root() const { return root_; }

  /// The elements of the call that piece `piece` carries of shard `owner`.
  schedule::ElementRange part(std::uint32_t owner, std::uint64_t piece) const {
    const schedule::ElementRange whole = shard(owner);
    if (pieces_ == 1) return whole;
    const std::uint64_t first = whole.first + piece * step_;
    if (first >= whole.last) return {whole.last, whole.last};
    return {first, whole.last - first > step_ ? first + step_ : whole.last};
  }
  schedule::ElementRange shard(std::uint32_t owner) const {
    if (owners_ == 1) return {0, count_};
    return {shard_begin(owner), shard_begin(owner + 1)};
  }
  /// Where in the payload of a slot the part of `owner` lies.
  std::uint64_t offset(std::uint32_t owner) const { return owner * stride_; }
  /// True when the payload is in the slot's header line.
  bool is_inline() const { return inline_; }
  /// True when a piece moves unchanged and is so large that reading it where it is, through the kernel, is faster than
  /// two copies through a slot. Whether that can be done is another question.
  bool attachable() const { return attachable_; }
  /// What of an attached input is read with piece `piece`: nothing, or the parts of several pieces in a row, since a
  /// call to the kernel costs as much as copying some KiB. In place a rank overwrites no more of its input than it has
  /// published.
  schedule::ElementRange attached_part(std::uint32_t owner, std::uint64_t piece, bool in_place) const {
    if (in_place) return part(owner, piece);
    const std::uint64_t ahead = piece % run_;
    if (ahead != 0) return {0, 0};
    const std::uint64_t last = piece + run_ < pieces_ ? piece + run_ - 1 : pieces_ - 1;
    return {part(owner, piece).first, part(owner, last).last};
  }

 private:
  std::uint64_t shard_begin(std::uint64_t index) const {
    if (cuts_ != nullptr) return cuts_[index];
    // The same number, without a division of 128 bits: parts are asked for all the time.
    if (count_ >> 32 == 0) return count_ * index / owners_;
    return schedule::cut(count_, index, owners_);
  }
  std::uint64_t longest_shard() const;

  Flow flow_ = Flow::kExchange;
  bool inline_ = true;
  bool attachable_ = false;
  std::uint32_t owners_ = 1;
  std::int32_t root_ = -1;
  std::uint64_t count_ = 0;
  std::uint64_t element_bytes_ = 1;
  std::uint64_t pieces_ = 1;
  std::uint64_t step_ = 0;  ///< elements of a part
  std::uint64_t stride_ = 0;
  std::uint64_t run_ = 1;  ///< pieces
  const std::uint64_t* cuts_ = nullptr;
};

}  // namespace foldcast::hierarchy
