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
};

/// Moves and reduces the bytes of a lane's pieces for one rank; when, decides the Lane. All functions return how many
/// bytes they wrote.
///
/// Per rank and N bytes of a large all_reduce among n ranks: fill() copies N (n-1)/n to the own slot; fold() reads N/n
/// of the own input and as much from each of n-1 slots and writes N/n to the output and, from the first-level cache,
/// once more to the slot; cast() copies N (n-1)/n from others' slots. So with two ranks 2 N are read and 2 N written,
/// of which N come from another core and only the caller's buffers (N read, N written) from memory: slots stay in
/// caches. Cross-memory attach would save fill() but copies in the kernel, page by page. Pieces of 64 KiB were read
/// with it at 7 to 8 GB/s where writing and reading a slot take about 14 together (cores with a common cache), and at 4
/// where those take about 5 (without).
class Mover {
 public:
  Mover(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank);

  /// Puts into the own slot what others need of the piece.
  std::uint64_t fill(const LaneCall& call, std::uint64_t piece);
  /// Reduces or copies what the piece gives this rank. Those it is_source() for have published.
  std::uint64_t fold(const LaneCall& call, std::uint64_t piece);
  /// Of Flow::kFoldCast: copies the part that `from` has folded.
  std::uint64_t cast(const LaneCall& call, std::uint64_t piece, std::uint32_t from);

  /// Whether this rank reads what `peer` publishes.
  bool is_source(const LaneCall& call, std::uint32_t peer) const;
  /// Whether this rank gets what others have folded.
  bool casts(const LaneCall& call) const { return call.cut.flow() == Flow::kFoldCast && is_target(call); }

 private:
  bool is_target(const LaneCall& call) const;
  std::byte* in_slot(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::uint32_t rank) const;
  std::uint64_t put(const LaneCall& call, std::uint64_t piece, std::uint32_t owner);
  std::uint64_t reduce(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::byte* target);
  std::uint64_t copy_shard(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::uint32_t from);
  std::uint64_t turn(const LaneCall& call, std::uint64_t piece, std::uint32_t from);

  std::shared_ptr<Segment> segment_;
  std::uint32_t lane_;
  std::uint32_t rank_;
  std::uint32_t size_;
  SlotWriter writer_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace foldcast::hierarchy
