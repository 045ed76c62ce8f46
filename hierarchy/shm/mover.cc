#include "hierarchy/shm/mover.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/reducer.h"

namespace foldcast::hierarchy {
namespace {

/// What is reduced before it is stored a second time: half of a first-level cache, so that the second store reads it
/// from there.
constexpr std::uint64_t kBlockBytes = 16u << 10;

}  // namespace

Mover::Mover(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank)
    : segment_(std::move(segment)), lane_(lane), rank_(rank), size_(segment_->shape().size), inputs_(size_, nullptr) {}

bool Mover::is_target(const LaneCall& call, std::uint32_t rank) {
  const bool to_root = call.id.verb == Verb::kReduce || call.id.verb == Verb::kGather;
  return !to_root || call.cut.root() == static_cast<std::int32_t>(rank);
}

bool Mover::attaches(const LaneCall& call) {
  const PieceCut& cut = call.cut;
  if (!cut.attachable()) return false;
  // In place, everyone's output is written before all have read their shard of it.
  if (cut.flow() == Flow::kTurn && call.input == call.output) return false;
  bool is_read = false;
  for (std::uint32_t peer = 0; peer < size_ && !is_read; ++peer) is_read = peer != rank_ && reads(call, peer, rank_);
  if (!is_read) return false;
  for (std::uint32_t peer = 0; peer < size_ && !all_reach_all_; ++peer) {
    if (!segment_->member(peer).reaches_all.load(std::memory_order_relaxed)) return false;
  }
  return all_reach_all_ = true;
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
  if (call.attached) {
    std::memcpy(segment_->slot(lane_, rank_, call.first + piece).inline_payload, &call.input, sizeof call.input);
    return 0;
  }
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

bool Mover::reads(const LaneCall& call, std::uint32_t reader, std::uint32_t source) const {
  switch (call.cut.flow()) {
    case Flow::kExchange:
      return is_target(call, reader);
    case Flow::kFoldCast:
    case Flow::kTurn:
      return true;
    case Flow::kFold:
      return reader < call.cut.owners();
    case Flow::kGather:
      return source < call.cut.owners() && is_target(call, reader);
    case Flow::kBroadcast:
    case Flow::kScatter:
      return call.cut.root() == static_cast<std::int32_t>(source);
  }
  return true;
}

bool Mover::attached(const LaneCall& call, std::uint64_t piece, std::uint32_t from) const {
  return from != rank_ && call.cut.attachable() && segment_->slot(lane_, from, call.first + piece).call.attached != 0;
}

std::uint64_t Mover::read(const LaneCall& call, std::uint64_t piece, std::uint32_t from, std::uint32_t source,
                          std::uint32_t target) {
  const bool in_place = call.input == call.output;
  const auto part = call.cut.attached_part(source, piece, in_place);
  const std::uint64_t element = call.cut.element_bytes();
  const std::uint64_t bytes = part.size() * element;
  if (bytes == 0) return 0;
  const std::byte* input = nullptr;
  std::memcpy(&input, segment_->slot(lane_, from, call.first + piece).inline_payload, sizeof input);
  failure_ =
      transports::read_memory(segment_->member(from).memory, input + part.first * element,
                              call.output + call.cut.attached_part(target, piece, in_place).first * element, bytes);
  // It withdraws first and gives its buffer away then.
  if (segment_->progress(lane_, from).withdrawn.load(std::memory_order_acquire)) {
    failure_ = peer_failed("local rank " + std::to_string(from) + " aborted the call");
  }
  return failure_.ok() ? bytes : 0;
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
  const bool cast_too = target != nullptr && is_target(call, rank_);
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
  if (attached(call, piece, from)) return read(call, piece, from, owner, owner);
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
  if (attached(call, piece, from)) return read(call, piece, from, rank_, from);
  const auto part = call.cut.part(from, piece);
  const std::uint64_t element = call.cut.element_bytes();
  if (part.size() == 0) return 0;
  kernels::copy_bytes(call.output + part.first * element, in_slot(call, piece, rank_, from), part.size() * element);
  return part.size() * element;
}

bool Mover::fold(const LaneCall& call, std::uint64_t piece, std::uint64_t& bytes) {
  const PieceCut& cut = call.cut;
  if (!failure_.ok()) failure_ = {};
  switch (cut.flow()) {
    case Flow::kExchange:
      if (is_target(call, rank_)) bytes += reduce(call, piece, 0, nullptr);
      break;
    case Flow::kFold:
      if (rank_ < cut.owners()) bytes += reduce(call, piece, rank_, nullptr);
      break;
    case Flow::kFoldCast: {
      // What the root of a reduce has folded nobody else reads.
      const bool is_root = cut.root() == static_cast<std::int32_t>(rank_);
      bytes += reduce(call, piece, rank_, is_root ? nullptr : in_slot(call, piece, rank_, rank_));
      break;
    }
    case Flow::kGather:
      for (std::uint32_t owner = 0; owner < cut.owners() && is_target(call, rank_) && failure_.ok(); ++owner) {
        bytes += copy_shard(call, piece, owner, owner);
      }
      break;
    case Flow::kBroadcast:
      bytes += copy_shard(call, piece, 0, static_cast<std::uint32_t>(cut.root()));
      break;
    case Flow::kScatter:
      bytes += copy_shard(call, piece, rank_, static_cast<std::uint32_t>(cut.root()));
      break;
    case Flow::kTurn:
      for (std::uint32_t from = 0; from < size_ && failure_.ok(); ++from) bytes += turn(call, piece, from);
      break;
  }
  return failure_.ok();
}

std::uint64_t Mover::cast(const LaneCall& call, std::uint64_t piece, std::uint32_t from) {
  return from == rank_ ? 0 : copy_shard(call, piece, from, from);
}

}  // namespace foldcast::hierarchy
