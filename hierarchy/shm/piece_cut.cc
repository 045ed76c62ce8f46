#include "hierarchy/shm/piece_cut.h"

#include <algorithm>

#include "hierarchy/shm/segment.h"

namespace foldcast::hierarchy {
namespace {

/// Up to here one round in which everyone reads everything beats two rounds in which each reads its share. With two
/// ranks both move as many bytes between cores (N a rank), and only the second round's wait is saved, against half a
/// copy and half a reduction more; with n ranks an exchange moves (n - 1) N instead of 2 (n - 1)/n N.
constexpr std::uint64_t kExchangeBytes = 8192;
/// A call is cut in at least this many pieces, as long as they are not smaller than kLeastPiece: while one is reduced
/// the next is being published. Smaller ones cost more in hand-overs than overlap gains.
constexpr std::uint64_t kPiecesAtLeast = 4;
constexpr std::uint64_t kLeastPiece = 16u << 10;
constexpr std::uint64_t kLine = 64;
/// From which part on attaching pays.
constexpr std::uint64_t kAttachBytes = 8u << 10;
/// What is read at once of an attached input, at least, if there is so much.
constexpr std::uint64_t kReadBytes = 512u << 10;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return divide_up(value, unit) * unit; }

Flow flow_of(const EngineCall& call, std::uint32_t size, std::uint64_t bytes, std::uint64_t slot_bytes) {
  switch (call.verb) {
    case Verb::kReduceScatter:
      return Flow::kFold;
    case Verb::kAllGather:
    case Verb::kGather:
      return Flow::kGather;
    case Verb::kBroadcast:
      return Flow::kBroadcast;
    case Verb::kScatter:
      return Flow::kScatter;
    case Verb::kAllToAll:
      return Flow::kTurn;
    case Verb::kAllReduce:
    case Verb::kReduce: {
      const std::uint64_t limit = std::min(2 * kExchangeBytes / std::max(size, 2u), slot_bytes);
      return size == 1 || bytes <= limit ? Flow::kExchange : Flow::kFoldCast;
    }
    default:
      return Flow::kExchange;
  }
}

bool has_root(Verb verb) {
  return verb == Verb::kBroadcast || verb == Verb::kReduce || verb == Verb::kGather || verb == Verb::kScatter;
}

}  // namespace

std::uint64_t PieceCut::longest_shard() const {
  if (cuts_ == nullptr) return divide_up(count_, owners_);
  std::uint64_t longest = 0;
  for (std::uint32_t owner = 0; owner < owners_; ++owner) longest = std::max(longest, shard(owner).size());
  return longest;
}

PieceCut::PieceCut(const EngineCall& call, std::uint32_t size, std::uint64_t slot_bytes) {
  if (call.verb == Verb::kBarrier) return;
  count_ = call.count;
  element_bytes_ = size_of(call.signature.dtype);
  const std::uint64_t bytes = count_ * element_bytes_;
  flow_ = flow_of(call, size, bytes, slot_bytes);
  if (has_root(call.verb)) root_ = call.peer;
  const bool has_owners = call.verb == Verb::kReduceScatter || call.verb == Verb::kAllGather;
  if (has_owners) {
    owners_ = call.owners;
    cuts_ = call.cuts;
  } else if (flow_ != Flow::kExchange && flow_ != Flow::kBroadcast) {
    owners_ = size;
  }
  if (flow_ == Flow::kExchange || bytes == 0) {
    inline_ = bytes <= sizeof(PieceHeader::inline_payload);
    return;
  }

  // A slot has a region for each part in it, which is whole cache lines, and at least one: the shape of the segment
  // sees to it that they fit.
  const std::uint64_t regions = flow_ == Flow::kGather || flow_ == Flow::kBroadcast ? 1 : owners_;
  const std::uint64_t longest = longest_shard();
  const std::uint64_t published = longest * regions * element_bytes_;
  std::uint64_t piece = slot_bytes;
  if (published > kLeastPiece) piece = std::clamp(published / kPiecesAtLeast, std::min(kLeastPiece, piece), piece);
  const std::uint64_t region = std::max(kLine, piece / regions / kLine * kLine);
  const std::uint64_t even = divide_up(longest, divide_up(longest, region / element_bytes_));
  step_ = std::min(round_up(even * element_bytes_, kLine), region) / element_bytes_;
  pieces_ = std::max<std::uint64_t>(1, divide_up(longest, step_));
  stride_ = regions > 1 ? round_up(std::min(step_, longest) * element_bytes_, kLine) : 0;
  // A root that reads all alone is slower than one for whom the others write half of it.
  const bool moves_unchanged = flow_ != Flow::kFold && flow_ != Flow::kFoldCast && call.verb != Verb::kGather;
  attachable_ = moves_unchanged && size > 1 && std::min(step_, longest) * element_bytes_ >= kAttachBytes;
  if (attachable_) run_ = std::max<std::uint64_t>(1, kReadBytes / (step_ * element_bytes_));
  inline_ = regions == 1 && std::min(step_, longest) * element_bytes_ <= sizeof(PieceHeader::inline_payload);
}

}  // namespace foldcast::hierarchy
