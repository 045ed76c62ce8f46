#include "hierarchy/shm/lane.h"

#include <algorithm>

#include "core/base/hash.h"
#include "hierarchy/shm/mismatch.h"

namespace foldcast::hierarchy {
namespace {

bool has_owners(Verb verb) { return verb == Verb::kReduceScatter || verb == Verb::kAllGather; }

std::int32_t detail_of(const EngineCall& call) {
  switch (call.verb) {
    case Verb::kBroadcast:
    case Verb::kReduce:
    case Verb::kGather:
    case Verb::kScatter:
      return call.peer;
    case Verb::kReduceScatter:
    case Verb::kAllGather:
      if (call.cuts != nullptr) {
        const auto* bytes = reinterpret_cast<const char*>(call.cuts);
        const std::uint64_t hash = fnv1a({bytes, (std::size_t{call.owners} + 1) * sizeof *call.cuts});
        return static_cast<std::int32_t>(hash ^ hash >> 32) & 0x7fffffff;
      }
      return -1;
    default:
      return -1;
  }
}

}  // namespace

Lane::Lane(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank)
    : segment_(std::move(segment)),
      lane_(lane),
      rank_(rank),
      size_(segment_->shape().size),
      progress_(segment_->progress(lane, rank)),
      mover_(segment_, lane, rank),
      consumed_by_(size_, 0) {}

void Lane::push(const EngineCall& call, std::uint64_t cookie) {
  LaneCall& added = at(tail_++);
  added.id = {.signature = call.signature,
              .sequence = call.key.sequence,
              .count = call.count,
              .fragment = call.key.fragment,
              .detail = detail_of(call),
              .owners = has_owners(call.verb) ? call.owners : std::uint16_t{0},
              .verb = call.verb};
  added.cut = PieceCut(call, size_, segment_->shape().slot_bytes);
  added.input = call.input;
  added.output = call.output;
  added.cookie = cookie;
  added.first = next_piece_;
  added.attached = mover_.attaches(added);
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

void Lane::publish(Outcome& outcome) {
  if (publish_.call == tail_ || !failure_.ok()) return;
  const LaneCall& call = at(publish_.call);
  const std::uint64_t number = call.first + publish_.piece;
  if (!slot_is_free(number)) return;
  if (size_ > 1) {
    PieceHeader& slot = segment_->slot(lane_, rank_, number);
    outcome.bytes += mover_.fill(call, publish_.piece);
    slot.call = call.id;
    slot.call.attached = call.attached ? 1 : 0;
    slot.call.backlog = static_cast<std::uint32_t>(number - consumed_);
    slot.stamp.store(number + 1, std::memory_order_release);
  }
  step(publish_);
  outcome.moved = outcome.signal = true;
  unsignalled_ = false;
}

bool Lane::arrived(const LaneCall& call, std::uint64_t piece, std::uint32_t peer) {
  if (peer == rank_ || (piece != 0 && !mover_.reads(call, rank_, peer))) return true;
  const std::uint64_t number = call.first + piece;
  const PieceHeader& slot = segment_->slot(lane_, peer, number);
  if (slot.stamp.load(std::memory_order_acquire) != number + 1) return false;
  if (piece == 0 && !same_call(call.id, slot.call)) {
    failure_ = mismatch_between({call.id, rank_}, {slot.call, peer});
    return true;
  }
  consumed_by_[peer] = std::max(consumed_by_[peer], number - std::min<std::uint64_t>(number, slot.call.backlog));
  return true;
}

bool Lane::fold(Outcome& outcome) {
  if (!failure_.ok() || (fold_.call == publish_.call && fold_.piece == publish_.piece)) return false;
  const LaneCall& call = at(fold_.call);
  for (; folded_from_ < size_; ++folded_from_) {
    if (!arrived(call, fold_.piece, folded_from_)) return false;
    if (!failure_.ok()) return true;  // the call ends when its turn to be cast comes
  }
  if (!mover_.fold(call, fold_.piece, outcome.bytes)) {
    // Of a peer that is gone the rank above hears elsewhere, and cancels.
    if (mover_.failure().code() == Code::kPeerFailed) return false;
    failure_ = mover_.failure();
    return true;
  }
  folded_from_ = 0;
  if (call.cut.flow() == Flow::kFoldCast || call.cut.attachable()) {
    progress_.folded.store(call.first + fold_.piece + 1, std::memory_order_release);
    outcome.signal = true;
  }
  step(fold_);
  return true;
}

bool Lane::cast(Outcome& outcome, std::vector<Completion>& completed) {
  const bool folded = cast_.call != fold_.call || cast_.piece != fold_.piece;
  if (!folded) {
    if (failure_.ok()) return false;
    completed.push_back({.cookie = at(head_).cookie, .status = failure_, .bytes = 0, .signature = {}});
    ++head_;
    outcome.broken = true;
    return true;
  }
  const LaneCall& call = at(cast_.call);
  const std::uint64_t number = call.first + cast_.piece;
  const bool casts = mover_.casts(call);
  if (casts || call.attached) {
    for (; cast_from_ < size_; ++cast_from_) {
      if (cast_from_ == rank_ || (!casts && !mover_.reads(call, cast_from_, rank_))) continue;
      if (segment_->progress(lane_, cast_from_).folded.load(std::memory_order_acquire) <= number) return false;
      if (casts) outcome.bytes += mover_.cast(call, cast_.piece, cast_from_);
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
  // Before the buffers are given away: who has just read from one of them looks at this afterwards.
  progress_.withdrawn.store(true, std::memory_order_seq_cst);
  for (; head_ != tail_; ++head_) {
    completed.push_back({.cookie = at(head_).cookie, .status = status, .bytes = 0, .signature = {}});
  }
  publish_ = fold_ = cast_ = {tail_, 0};
  failure_ = {};
  folded_from_ = cast_from_ = 0;
}

}  // namespace foldcast::hierarchy
