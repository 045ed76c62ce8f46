#include "hierarchy/shm/mover.h"

#include <algorithm>
#include <cstring>

#include "kernels/reducer.h"

namespace foldcast::hierarchy {
namespace {

/// What is reduced before it is stored a second time: half of a first-level cache, so that the second store reads it
/// from there.
constexpr std::uint64_t kBlockBytes = 16u << 10;

}  // namespace

Mover::Mover(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank)
    : segment_(std::move(segment)), lane_(lane), rank_(rank), size_(segment_->shape().size), inputs_(size_, nullptr) {}

bool Mover::is_target(const LaneCall& call) const {
  const bool to_root = call.id.verb == Verb::kReduce || call.id.verb == Verb::kGather;
  return !to_root || call.cut.root() == static_cast<std::int32_t>(rank_);
}

std::byte* Mover::in_slot(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::uint32_t rank) const {
  PieceHeader& slot = segment_->slot(lane_, rank, call.first + piece);
  if (call.cut.is_inline()) return slot.inline_payload;
  return reinterpret_cast<std::byte*>(&slot + 1) + call.cut.offset(owner);
}

std::uint64_t Mover::put(const LaneCall& call, std::uint64_t piece, std::uint32_t owner) {
  const auto part = call.cut.part(owner, piece);
  const std::uint64_t element = call.cut.element_bytes();
  if (part.size() == 0) return 0;
  if (call.cut.is_inline()) {
    std::memcpy(in_slot(call, piece, owner, rank_), call.input + part.first * element, part.size() * element);
    return part.size() * element;
  }
  writer_.write(in_slot(call, piece, owner, rank_), call.input + part.first * element, part.size() * element);
  return part.size() * element;
}

std::uint64_t Mover::fill(const LaneCall& call, std::uint64_t piece) {
  const PieceCut& cut = call.cut;
  const bool is_root = cut.root() == static_cast<std::int32_t>(rank_);
  std::uint64_t bytes = 0;
  switch (cut.flow()) {
    case Flow::kExchange:
      return is_root ? 0 : put(call, piece, 0);  // a root keeps its own to itself
    case Flow::kGather:
      return rank_ < cut.owners() && !is_root ? put(call, piece, rank_) : 0;
    case Flow::kBroadcast:
      return is_root ? put(call, piece, 0) : 0;
    case Flow::kScatter:
      if (!is_root) return 0;
      break;
    case Flow::kFold:
    case Flow::kFoldCast:
    case Flow::kTurn:
      break;
  }
  for (std::uint32_t owner = 0; owner < cut.owners(); ++owner) {
    if (owner != rank_) bytes += put(call, piece, owner);
  }
  return bytes;
}

bool Mover::is_source(const LaneCall& call, std::uint32_t peer) const {
  switch (call.cut.flow()) {
    case Flow::kExchange:
      return is_target(call);
    case Flow::kFoldCast:
    case Flow::kTurn:
      return true;
    case Flow::kFold:
      return rank_ < call.cut.owners();
    case Flow::kGather:
      return peer < call.cut.owners() && is_target(call);
    case Flow::kBroadcast:
    case Flow::kScatter:
      return call.cut.root() == static_cast<std::int32_t>(peer);
  }
  return true;
}

/// To `target`, which is a slot, and to the output where the result belongs there; null for the output alone.
std::uint64_t Mover::reduce(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::byte* target) {
  const auto part = call.cut.part(owner, piece);
  const std::uint64_t element = call.cut.element_bytes();
  if (part.size() == 0) return 0;
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    inputs_[peer] = peer == rank_ ? call.input + part.first * element : in_slot(call, piece, owner, peer);
  }
  const ReduceOp op = pairwise(call.id.signature.op);
  const bool cast_too = target != nullptr && is_target(call);
  std::byte* const first = target == nullptr || cast_too ? call.output + part.first * element : target;
  const std::uint64_t block = cast_too ? kBlockBytes / element : part.size();
  for (std::uint64_t done = 0; done < part.size(); done += block) {
    const std::uint64_t count = std::min(block, part.size() - done);
    std::byte* const to = first + done * element;
    kernels::reduce_n(op, call.id.signature.dtype, to, inputs_, count);
    if (cast_too) writer_.write(target + done * element, to, count * element);
    for (const std::byte*& input : inputs_) input += count * element;
  }
  return (cast_too ? 2 : 1) * part.size() * element;
}

std::uint64_t Mover::copy_shard(const LaneCall& call, std::uint64_t piece, std::uint32_t owner, std::uint32_t from) {
  const auto part = call.cut.part(owner, piece);
  const std::uint64_t element = call.cut.element_bytes();
  const std::uint64_t offset = part.first * element;
  if (part.size() == 0) return 0;
  const std::byte* source = from == rank_ ? call.input + offset : in_slot(call, piece, owner, from);
  kernels::copy_bytes(call.output + offset, source, part.size() * element);
  return part.size() * element;
}

/// Part of shard `rank_` of local rank `from` becomes part of shard `from`: shards are equal, so parts are too.
std::uint64_t Mover::turn(const LaneCall& call, std::uint64_t piece, std::uint32_t from) {
  if (from == rank_) return copy_shard(call, piece, rank_, rank_);
  const auto part = call.cut.part(from, piece);
  const std::uint64_t element = call.cut.element_bytes();
  if (part.size() == 0) return 0;
  kernels::copy_bytes(call.output + part.first * element, in_slot(call, piece, rank_, from), part.size() * element);
  return part.size() * element;
}

std::uint64_t Mover::fold(const LaneCall& call, std::uint64_t piece) {
  const PieceCut& cut = call.cut;
  std::uint64_t bytes = 0;
  switch (cut.flow()) {
    case Flow::kExchange:
      return is_target(call) ? reduce(call, piece, 0, nullptr) : 0;
    case Flow::kFold:
      return rank_ < cut.owners() ? reduce(call, piece, rank_, nullptr) : 0;
    case Flow::kFoldCast:
      // What the root of a reduce has folded nobody else reads.
      if (cut.root() == static_cast<std::int32_t>(rank_)) return reduce(call, piece, rank_, nullptr);
      return reduce(call, piece, rank_, in_slot(call, piece, rank_, rank_));
    case Flow::kGather:
      for (std::uint32_t owner = 0; owner < cut.owners() && is_target(call); ++owner) {
        bytes += copy_shard(call, piece, owner, owner);
      }
      return bytes;
    case Flow::kBroadcast:
      return copy_shard(call, piece, 0, static_cast<std::uint32_t>(cut.root()));
    case Flow::kScatter:
      return copy_shard(call, piece, rank_, static_cast<std::uint32_t>(cut.root()));
    case Flow::kTurn:
      for (std::uint32_t from = 0; from < size_; ++from) bytes += turn(call, piece, from);
      return bytes;
  }
  return 0;
}

std::uint64_t Mover::cast(const LaneCall& call, std::uint64_t piece, std::uint32_t from) {
  return from == rank_ ? 0 : copy_shard(call, piece, from, from);
}

}  // namespace foldcast::hierarchy
