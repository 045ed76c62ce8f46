#include "hierarchy/shm/lane.h"

#include <algorithm>
#include <cstring>

#include "hierarchy/shm/mismatch.h"
#include "kernels/reducer.h"

namespace foldcast::hierarchy {
namespace {

void copy_bytes(std::byte* target, const std::byte* source, std::uint64_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

}  // namespace

Lane::Lane(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank)
    : segment_(std::move(segment)),
      lane_(lane),
      rank_(rank),
      size_(segment_->shape().size),
      progress_(segment_->progress(lane, rank)),
      consumed_by_(size_, 0),
      inputs_(size_, nullptr) {}

void Lane::push(const EngineCall& call, std::uint64_t cookie) {
  Outstanding& added = at(tail_++);
  added.id = {
      .signature = call.signature,
      .sequence = call.key.sequence,
      .count = call.count,
      .fragment = call.key.fragment,
      .peer = call.verb == Verb::kBroadcast ? call.peer : -1,
      .owners = call.verb == Verb::kReduceScatter || call.verb == Verb::kAllGather ? call.owners : std::uint16_t{0},
      .verb = call.verb};
  added.cut = PieceCut(call, size_, segment_->shape().slot_bytes);
  added.input = call.input;
  added.output = call.output;
  added.cookie = cookie;
  added.first = next_piece_;
  next_piece_ += added.cut.pieces();
}

void Lane::step(Cursor& cursor) {
  if (++cursor.piece < at(cursor.call).cut.pieces()) return;
  ++cursor.call;
  cursor.piece = 0;
}

bool Lane::slot_is_free(std::uint64_t number) {
  const std::uint64_t slots = segment_->shape().slots;
  if (number < slots) return true;
  const std::uint64_t needed = number - slots + 1;
  if (consumed_ < needed) return false;
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || consumed_by_[peer] >= needed) continue;
    consumed_by_[peer] = segment_->progress(lane_, peer).consumed.load(std::memory_order_acquire);
    if (consumed_by_[peer] < needed) return false;
  }
  return true;
}

const std::byte* Lane::part_in_slot(const Outstanding& call, std::uint64_t piece, std::uint32_t owner,
                                    std::uint32_t rank) const {
  PieceHeader& slot = segment_->slot(lane_, rank, call.first + piece);
  if (call.cut.is_inline()) return slot.inline_payload;
  return reinterpret_cast<std::byte*>(&slot + 1) + call.cut.offset(owner);
}

std::uint64_t Lane::fill_slot(const Outstanding& call, std::uint64_t piece, PieceHeader& slot) const {
  const PieceCut& cut = call.cut;
  std::byte* payload = cut.is_inline() ? slot.inline_payload : reinterpret_cast<std::byte*>(&slot + 1);
  std::uint64_t moved = 0;
  auto put = [&](std::uint32_t owner) {
    const auto part = cut.part(owner, piece);
    const std::uint64_t bytes = part.size() * cut.element_bytes();
    if (bytes != 0) std::memcpy(payload + cut.offset(owner), call.input + part.first * cut.element_bytes(), bytes);
    moved += bytes;
  };
  switch (cut.flow()) {
    case Flow::kExchange:
      put(0);
      break;
    case Flow::kScatter:
    case Flow::kFoldCast:
      for (std::uint32_t owner = 0; owner < cut.owners(); ++owner) {
        if (owner != rank_) put(owner);
      }
      break;
    case Flow::kGather: {
      if (rank_ >= cut.owners()) break;
      const auto part = cut.part(rank_, piece);
      const std::uint64_t bytes = part.size() * cut.element_bytes();
      copy_bytes(payload, call.input + part.first * cut.element_bytes(), bytes);
      moved += bytes;
      break;
    }
    case Flow::kBroadcast:
      if (call.id.peer == static_cast<std::int32_t>(rank_)) put(0);
      break;
  }
  return moved;
}

void Lane::publish(Outcome& outcome) {
  if (publish_.call == tail_ || !mismatch_.ok()) return;
  const Outstanding& call = at(publish_.call);
  const std::uint64_t number = call.first + publish_.piece;
  if (!slot_is_free(number)) return;
  if (size_ > 1) {
    PieceHeader& slot = segment_->slot(lane_, rank_, number);
    outcome.bytes += fill_slot(call, publish_.piece, slot);
    slot.call = call.id;
    slot.call.backlog = static_cast<std::uint32_t>(number - consumed_);
    slot.stamp.store(number + 1, std::memory_order_release);
  }
  step(publish_);
  outcome.moved = outcome.signal = true;
  unsignalled_ = false;
}

bool Lane::is_source(const Outstanding& call, std::uint32_t peer) const {
  switch (call.cut.flow()) {
    case Flow::kExchange:
    case Flow::kFoldCast:
      return true;
    case Flow::kScatter:
      return rank_ < call.cut.owners();
    case Flow::kGather:
      return peer < call.cut.owners();
    case Flow::kBroadcast:
      return call.id.peer == static_cast<std::int32_t>(peer);
  }
  return true;
}

bool Lane::arrived(const Outstanding& call, std::uint64_t piece, std::uint32_t peer) {
  if (peer == rank_ || (piece != 0 && !is_source(call, peer))) return true;
  const std::uint64_t number = call.first + piece;
  const PieceHeader& slot = segment_->slot(lane_, peer, number);
  if (slot.stamp.load(std::memory_order_acquire) != number + 1) return false;
  if (piece == 0 && !same_call(call.id, slot.call)) {
    mismatch_ = mismatch_between({call.id, rank_}, {slot.call, peer});
    return true;
  }
  consumed_by_[peer] = std::max(consumed_by_[peer], number - std::min<std::uint64_t>(number, slot.call.backlog));
  return true;
}

std::uint64_t Lane::reduce_part(const Outstanding& call, std::uint64_t piece, std::uint32_t owner, std::byte* target) {
  const auto part = call.cut.part(owner, piece);
  if (part.size() == 0) return 0;
  const std::uint64_t offset = part.first * call.cut.element_bytes();
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    inputs_[peer] = peer == rank_ ? call.input + offset : part_in_slot(call, piece, owner, peer);
  }
  kernels::reduce_n(pairwise(call.id.signature.op), call.id.signature.dtype, target, inputs_, part.size());
  return part.size() * call.cut.element_bytes();
}

std::uint64_t Lane::copy_part(const Outstanding& call, std::uint64_t piece, std::uint32_t owner,
                              std::uint32_t from) const {
  const auto part = call.cut.part(owner, piece);
  const std::uint64_t offset = part.first * call.cut.element_bytes();
  const std::uint64_t bytes = part.size() * call.cut.element_bytes();
  const bool folded = call.cut.flow() == Flow::kFoldCast;
  const std::byte* source = from == rank_ && !folded ? call.input + offset : part_in_slot(call, piece, owner, from);
  if (bytes != 0) copy_bytes(call.output + offset, source, bytes);
  return bytes;
}

bool Lane::fold(Outcome& outcome) {
  if (!mismatch_.ok() || (fold_.call == publish_.call && fold_.piece == publish_.piece)) return false;
  const Outstanding& call = at(fold_.call);
  for (; folded_from_ < size_; ++folded_from_) {
    if (!arrived(call, fold_.piece, folded_from_)) return false;
    if (!mismatch_.ok()) return true;  // the call ends when its turn to be cast comes
  }
  folded_from_ = 0;
  const auto mine = call.cut.part(std::min(rank_, call.cut.owners() - 1), fold_.piece);
  const std::uint64_t offset = mine.first * call.cut.element_bytes();
  switch (call.cut.flow()) {
    case Flow::kExchange:
      if (mine.size() != 0) outcome.bytes += reduce_part(call, fold_.piece, 0, call.output + offset);
      break;
    case Flow::kScatter:
      if (rank_ < call.cut.owners() && mine.size() != 0) {
        outcome.bytes += reduce_part(call, fold_.piece, rank_, call.output + offset);
      }
      break;
    case Flow::kFoldCast: {
      auto* target = const_cast<std::byte*>(part_in_slot(call, fold_.piece, rank_, rank_));
      outcome.bytes += reduce_part(call, fold_.piece, rank_, target);
      progress_.folded.store(call.first + fold_.piece + 1, std::memory_order_release);
      outcome.signal = true;
      break;
    }
    case Flow::kGather:
      for (std::uint32_t owner = 0; owner < call.cut.owners(); ++owner) {
        outcome.bytes += copy_part(call, fold_.piece, owner, owner);
      }
      break;
    case Flow::kBroadcast:
      outcome.bytes += copy_part(call, fold_.piece, 0, static_cast<std::uint32_t>(call.id.peer));
      break;
  }
  step(fold_);
  return true;
}

bool Lane::cast(Outcome& outcome, std::vector<Completion>& completed) {
  const bool folded = cast_.call != fold_.call || cast_.piece != fold_.piece;
  if (!folded) {
    if (mismatch_.ok()) return false;
    completed.push_back({.cookie = at(head_).cookie, .status = mismatch_, .bytes = 0, .signature = {}});
    ++head_;
    outcome.broken = true;
    return true;
  }
  const Outstanding& call = at(cast_.call);
  const std::uint64_t number = call.first + cast_.piece;
  if (call.cut.flow() == Flow::kFoldCast) {
    for (; cast_from_ < size_; ++cast_from_) {
      const bool mine = cast_from_ == rank_;
      if (!mine && segment_->progress(lane_, cast_from_).folded.load(std::memory_order_acquire) <= number) return false;
      outcome.bytes += copy_part(call, cast_.piece, cast_from_, cast_from_);
    }
    cast_from_ = 0;
  }
  consumed_ = number + 1;
  progress_.consumed.store(consumed_, std::memory_order_release);
  step(cast_);
  if (cast_.piece == 0) {
    completed.push_back({.cookie = call.cookie, .status = {}, .bytes = 0, .signature = {}});
    ++head_;
  }
  // A peer that waits for a free slot waits on behalf of a call that also needs this rank. If this rank has not posted
  // it yet, telling can wait until it does: the common small call needs no fence here.
  if (idle()) {
    unsignalled_ = true;
  } else {
    outcome.signal = true;
  }
  return true;
}

Lane::Outcome Lane::advance(std::vector<Completion>& completed) {
  Outcome outcome;
  if (idle()) return outcome;
  if (unsignalled_) {
    outcome.signal = true;
    unsignalled_ = false;
  }
  if (fold(outcome)) outcome.moved = true;
  if (cast(outcome, completed)) outcome.moved = true;
  if (!outcome.broken) publish(outcome);
  return outcome;
}

void Lane::abandon(const Status& status, std::vector<Completion>& completed) {
  for (; head_ != tail_; ++head_) {
    completed.push_back({.cookie = at(head_).cookie, .status = status, .bytes = 0, .signature = {}});
  }
  publish_ = fold_ = cast_ = {tail_, 0};
  mismatch_ = {};
  folded_from_ = cast_from_ = 0;
}

}  // namespace foldcast::hierarchy
