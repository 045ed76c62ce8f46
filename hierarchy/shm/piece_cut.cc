#include "hierarchy/shm/piece_cut.h"

#include <algorithm>

#include "hierarchy/shm/segment.h"

namespace foldcast::hierarchy {
namespace {

/// Up to here one round in which everyone reads everything beats two rounds in which each reads its share.
constexpr std::uint64_t kExchangeBytes = 4096;
/// A call is cut in at least this many pieces, as long as they are not smaller than kLeastPiece: while one is reduced
/// the next is being published.
constexpr std::uint64_t kPiecesAtLeast = 4;
constexpr std::uint64_t kLeastPiece = 16u << 10;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Flow flow_of(const EngineCall& call, std::uint64_t bytes, std::uint64_t slot_bytes) {
  switch (call.verb) {
    case Verb::kReduceScatter:
      return Flow::kScatter;
    case Verb::kAllGather:
      return Flow::kGather;
    case Verb::kBroadcast:
      return Flow::kBroadcast;
    case Verb::kAllReduce:
      return bytes <= std::min(kExchangeBytes, slot_bytes) ? Flow::kExchange : Flow::kFoldCast;
    default:
      return Flow::kExchange;
  }
}

}  // namespace

PieceCut::PieceCut(const EngineCall& call, std::uint32_t size, std::uint64_t slot_bytes) {
  if (call.verb == Verb::kBarrier) return;
  count_ = call.count;
  element_bytes_ = size_of(call.signature.dtype);
  const std::uint64_t bytes = count_ * element_bytes_;
  flow_ = size == 1 && call.verb == Verb::kAllReduce ? Flow::kExchange : flow_of(call, bytes, slot_bytes);
  if (flow_ == Flow::kFoldCast) owners_ = size;
  if (flow_ == Flow::kScatter || flow_ == Flow::kGather) owners_ = call.owners;

  const bool all_in_one_slot = flow_ == Flow::kScatter || flow_ == Flow::kFoldCast;
  const std::uint64_t regions = all_in_one_slot ? owners_ : 1;
  const std::uint64_t longest = owners_ > 1 ? divide_up(count_, owners_) : count_;
  const std::uint64_t published = longest * regions * element_bytes_;
  if (published > kLeastPiece) {
    const std::uint64_t piece = std::clamp(published / kPiecesAtLeast, kLeastPiece, std::max(kLeastPiece, slot_bytes));
    // A region is whole cache lines, and at least one: the shape of the segment sees to it that they fit.
    const std::uint64_t region = std::max<std::uint64_t>(64, std::min(piece, slot_bytes) / regions / 64 * 64);
    pieces_ = std::max<std::uint64_t>(1, divide_up(longest, region / element_bytes_));
  } else if (published > 0) {
    const std::uint64_t region = slot_bytes / regions / 64 * 64;
    pieces_ = std::max<std::uint64_t>(1, divide_up(longest, region / element_bytes_));
  }
  const std::uint64_t part_bytes = divide_up(longest, pieces_) * element_bytes_;
  stride_ = regions > 1 ? divide_up(part_bytes, 64) * 64 : 0;
  inline_ = regions == 1 && part_bytes <= sizeof(PieceHeader::inline_payload);
}

}  // namespace foldcast::hierarchy
