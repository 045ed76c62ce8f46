#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/engine.h"
#include "hierarchy/shm/mover.h"
#include "hierarchy/shm/segment.h"

namespace foldcast::hierarchy {

/// One rank's side of one lane: its outstanding calls, cut into pieces that are numbered through, so that piece k of
/// every rank is in slot k mod slots of its ring. Each piece passes three stages, in order, none of which waits:
///
///   publish  when everyone has consumed piece k - slots: copy what others need into the own slot, stamp it.
///   fold     when those whose data is needed have published it: reduce (or copy) it. Of a call's first piece, when
///            everyone has, to compare what they called: no output is written before all agree.
///   cast     of large all_reduces and reduces: copy the others' reduced shards when they are there. Of what this rank
///            has attached: wait until its readers have read it. Then the piece is consumed.
///
/// A stage works on a later piece while the next one still waits for peers, so copying and reducing overlap.
class Lane {
 public:
  static constexpr std::uint64_t kQueue = 64;  ///< outstanding calls

  Lane(std::shared_ptr<Segment> segment, std::uint32_t lane, std::uint32_t rank);

  bool full() const { return tail_ - head_ == kQueue; }
  bool idle() const { return tail_ == head_; }
  void push(const EngineCall& call, std::uint64_t cookie);

  struct Outcome {
    std::uint64_t bytes = 0;  ///< copied or reduced
    bool moved = false;       ///< some stage made a step
    bool signal = false;      ///< peers may be waiting for what was stored
    bool broken = false;      ///< members differ in what they called; the lane is at its end
  };
  /// One step of the publish stage if it can be made: what post() does so that peers see the call at once.
  void publish(Outcome& outcome);
  /// At most one step of each stage. Calls that ended are appended to `completed`.
  Outcome advance(std::vector<Completion>& completed);
  /// Ends all outstanding calls with `status`; no buffer is touched afterwards.
  void abandon(const Status& status, std::vector<Completion>& completed);

 private:
  /// Piece `piece` of call number `call`.
  struct Cursor {
    std::uint64_t call = 0;
    std::uint64_t piece = 0;
  };

  LaneCall& at(std::uint64_t call) { return queue_[call % kQueue]; }
  void step(Cursor& cursor);
  bool slot_is_free(std::uint64_t number);
  bool fold(Outcome& outcome);
  bool cast(Outcome& outcome, std::vector<Completion>& completed);

  bool arrived(const LaneCall& call, std::uint64_t piece, std::uint32_t peer);

  std::shared_ptr<Segment> segment_;
  std::uint32_t lane_;
  std::uint32_t rank_;
  std::uint32_t size_;
  RankProgress& progress_;
  Mover mover_;
  std::array<LaneCall, kQueue> queue_;
  std::uint64_t head_ = 0;  ///< oldest outstanding call
  std::uint64_t tail_ = 0;  ///< next call's number
  std::uint64_t next_piece_ = 0;
  std::uint64_t consumed_ = 0;
  Cursor publish_, fold_, cast_;
  std::uint32_t folded_from_ = 0;           ///< ranks below are there for the piece at fold_
  std::uint32_t cast_from_ = 0;             ///< ranks below are copied for the piece at cast_
  std::vector<std::uint64_t> consumed_by_;  ///< what is known of each rank's `consumed`
  bool unsignalled_ = false;                ///< consumed something without telling, see cast()
  Status failure_;                          ///< of the call at fold_
};

}  // namespace foldcast::hierarchy
