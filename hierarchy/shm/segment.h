#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/base/engine.h"
#include "core/base/unique_fd.h"
#include "transports/shm/cross_memory.h"

namespace foldcast::hierarchy {

/// Which call a piece belongs to, as its publisher sees it: compared by everyone before an output is written.
struct CallId {
  Signature signature;
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  ///< elements of this engine call (a fragment of the signature's count)
  std::uint32_t fragment = 0;
  std::int32_t detail = -1;  ///< the root's local rank, or a hash of the cuts
  std::uint16_t owners = 0;
  Verb verb = Verb::kBarrier;
  // Not part of the identity, from here on.
  /// 1: the slot holds, in the inline payload, the address of the publisher's input, to be read from there.
  std::uint8_t attached = 0;
  /// How many pieces before this one its publisher had not yet consumed. It tells readers that slots are free again
  /// without another cache line to fetch.
  std::uint32_t backlog = 0;
};
static_assert(sizeof(CallId) == 48 && offsetof(CallId, attached) == 43 && std::is_trivially_copyable_v<CallId>);

bool same_call(const CallId& a, const CallId& b);

/// The first cache line of a slot. `stamp` is the number on the lane of the piece it holds, plus one; it is stored
/// last, with release, so that whoever reads it with acquire may read the rest. Payloads of up to eight bytes travel in
/// this line: a small call is one cache line each way.
struct alignas(64) PieceHeader {
  std::atomic<std::uint64_t> stamp;
  CallId call;
  std::byte inline_payload[8];
};
static_assert(sizeof(PieceHeader) == 64 && offsetof(PieceHeader, inline_payload) == 56);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint8_t>::is_always_lock_free);

/// One rank's progress on one lane: piece numbers that only grow and are never reset.
struct RankProgress {
  /// Of pieces below this its shard is reduced, in its slots, or the inputs that were attached are read.
  alignas(64) std::atomic<std::uint64_t> folded;
  std::atomic<bool> withdrawn;                      ///< what it attached is not to be relied on any more
  alignas(64) std::atomic<std::uint64_t> consumed;  ///< it needs no slot of pieces below this any more
};

/// Where a member's own memory is to be found, see transports/shm/cross_memory.h.
struct alignas(64) MemberMemory {
  transports::ProcessMemory memory;
  std::atomic<bool> reaches_all;  ///< this member can read all others'
};

struct SegmentShape {
  std::uint32_t size = 1;           ///< ranks
  std::uint32_t slots = 4;          ///< per rank and lane; a power of two
  std::uint64_t slot_bytes = 4096;  ///< payload of one slot; a multiple of 64
  std::uint64_t bytes() const;      ///< of the whole segment

  /// Rounds up what must be round; kInvalidArgument names what cannot be.
  static Result<SegmentShape> create(int size, std::uint64_t slot_bytes, std::uint32_t slots);
};

/// The members' common memory, mapped: sleep flags, who is where, the progress counters per lane and rank, then for
/// each rank, in pages of its own, a ring of slots per lane. Owns its mapping, not the descriptor. Threads may share
/// one.
///
/// Set up in three steps, so that no memory is missing later (a SIGBUS) or touched for the first time by a call:
/// one member allocates, all map and claim their own slots, and when all have, all prefault().
class Segment {
 public:
  /// A new sealed memfd of the shape's size. kResourceExhausted when there is not so much memory.
  static Result<UniqueFd> allocate(const SegmentShape& shape);
  /// Maps what allocate() made, here or in another process; refuses one of another size or that could still shrink.
  static Result<std::shared_ptr<Segment>> map(int memfd, const SegmentShape& shape);
  /// Allocates the pages of this rank's slots (and rank 0 those all share) and says where its process is. Who touches a
  /// page first decides on which NUMA node it is: a slot is on its writer's, because writes that go far stall more than
  /// reads, which are prefetched. kResourceExhausted when there is no memory any more.
  Status claim(int memfd, std::uint32_t rank) const;
  /// Maps all pages, which all are there.
  void prefault() const;
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const SegmentShape& shape() const { return shape_; }
  std::atomic<std::uint8_t>& asleep(std::uint32_t rank) const {
    return *reinterpret_cast<std::atomic<std::uint8_t>*>(base_ + rank);
  }
  MemberMemory& member(std::uint32_t rank) const {
    return reinterpret_cast<MemberMemory*>(base_ + members_offset_)[rank];
  }
  RankProgress& progress(std::uint32_t lane, std::uint32_t rank) const {
    return reinterpret_cast<RankProgress*>(base_ + progress_offset_)[lane * shape_.size + rank];
  }
  /// The slot of the lane's piece number `piece`.
  PieceHeader& slot(std::uint32_t lane, std::uint32_t rank, std::uint64_t piece) const {
    const std::uint64_t index = std::uint64_t{lane} * shape_.slots + (piece & (shape_.slots - 1));
    return *reinterpret_cast<PieceHeader*>(base_ + slots_offset_ + rank * ring_bytes_ +
                                           index * (sizeof(PieceHeader) + shape_.slot_bytes));
  }

 private:
  Segment(std::byte* base, const SegmentShape& shape);

  std::byte* base_;
  SegmentShape shape_;
  std::uint64_t members_offset_;
  std::uint64_t progress_offset_;
  std::uint64_t slots_offset_;
  std::uint64_t ring_bytes_;  ///< of one rank, both lanes
};

}  // namespace foldcast::hierarchy
