#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/engine.h"
#include "hierarchy/shm/piece_cut.h"
#include "hierarchy/shm/segment.h"
#include "hierarchy/shm/slot_writer.h"

namespace foldcast::hierarchy {

/// A posted call as its lane keeps it.
struct LaneCall {
  CallId id;
  PieceCut cut;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t cookie = 0;
  std::uint64_t first = 0;  ///< number of its first piece on the lane
  bool attached = false;    ///< this rank's input is read where it is
};

/// Moves and reduces the bytes of a lane's pieces for one rank; when, decides the Lane. Functions that return a number
/// say how many bytes they wrote.
///
/// Per rank and N bytes of a large all_reduce among n ranks: fill() copies N (n-1)/n to the own slot; fold() reads N/n
/// of the own input and as much from each of n-1 slots and writes N/n to the output and, from the first-level cache,
/// once more to the slot; cast() copies N (n-1)/n from others' slots. So with two ranks 2 N are read and 2 N written,
/// of which N come from another core and only the caller's buffers (N read, N written) from memory: slots stay in
/// caches.
///
/// What is only moved is not copied twice where the kernel lets members read each other's memory (cross-memory attach):
/// the slot then says where the input is, and whoever needs it reads it there. 64 KiB at a time, two cores with a
/// common cache: 24 GB/s, where a slot is written and read at 8 to 10. What is reduced would have to be read to a place
/// of its own first, which costs more than it saves.
class Mover {
 public:
  Mover(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank);

  /// Whether others are to read this rank's input of the call where it is. It stays as it is until they have.
  bool attaches(const LaneCall& call);
  /// Puts into the own slot what others need of the piece, or where it is.
  std::uint64_t fill(const LaneCall& call, std::uint64_t piece);
  /// Reduces or copies what the piece gives this rank, and adds the bytes to `bytes`. Its sources have published. False
  /// when a source's memory could not be read: see failure().
  bool fold(const LaneCall& call, std::uint64_t piece, std::uint64_t& bytes);
  /// Why the last fold() was false: kPeerFailed when the source is gone or has withdrawn what it attached.
  const Status& failure() const { return failure_; }
  /// Of Flow::kFoldCast: copies the part that `from` has folded.
  std::uint64_t cast(const LaneCall& call, std::uint64_t piece, std::uint32_t from);

  /// Whether `reader` reads what `source` publishes, who is not the same.
  bool reads(const LaneCall& call, std::uint32_t reader, std::uint32_t source) const;
  /// Whether this rank gets what others have folded.
  bool casts(const LaneCall& call) const { return call.cut.flow() == Flow::kFoldCast && is_target(call, rank_); }

 private:
  static bool is_target(const LaneCall& call, std::uint32_t rank);
  std::byte* in_slot(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::uint32_t rank) const;
  std::uint64_t put(const LaneCall& call, std::uint64_t piece, std::uint32_t owner);
  std::uint64_t reduce(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::byte* target);
  std::uint64_t copy_shard(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::uint32_t from);
  std::uint64_t turn(const LaneCall& call, std::uint64_t piece, std::uint32_t from);
  bool attached(const LaneCall& call, std::uint64_t piece, std::uint32_t from) const;
  /// From shard `source` of the input of `from` to shard `target` of the output.
  std::uint64_t read(const LaneCall& call, std::uint64_t piece, std::uint32_t from, std::uint32_t source,
                     std::uint32_t target);

  std::shared_ptr<Segment> segment_;
  std::uint32_t lane_;
  std::uint32_t rank_;
  std::uint32_t size_;
  SlotWriter writer_;
  std::vector<const std::byte*> inputs_;
  bool all_reach_all_ = false;
  Status failure_;
};

}  // namespace foldcast::hierarchy
