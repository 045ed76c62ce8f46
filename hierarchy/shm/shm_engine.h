#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hierarchy/node_group.h"
#include "hierarchy/shm/doorbells.h"
#include "hierarchy/shm/lane.h"

namespace foldcast::hierarchy {

/// Who a group is made of. Members of one process may share one Segment.
struct Membership {
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Doorbells> doorbells;
  std::vector<std::uint32_t> bell_of;  ///< per local rank: its number among the doorbells
  bool cross_memory = true;            ///< as in ShmOptions
};

/// See make_shm_node_group.
class ShmNodeGroup final : public NodeGroup {
 public:
  ShmNodeGroup(Membership membership, std::uint32_t rank);
  ~ShmNodeGroup() override { disarm(); }

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return membership_.doorbells->descriptor(); }
  bool arm() override;
  void cancel(std::uint32_t communicator) override;

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(size_); }
  GroupCaps caps() const override;

  const Membership& membership() const { return membership_; }

 private:
  bool progress();
  /// Rings for those that sleep. What was stored just before may not be seen yet by one that is falling asleep just
  /// now, and its flag not here: settle() looks again, before the owner turns to something else.
  void signal();
  void settle();
  void disarm();
  void ring_sleepers();
  void break_with(const Status& status);
  bool reaches_all() const;

  Membership membership_;
  Segment& segment_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::array<Lane, kLanes> lanes_;
  std::vector<Completion> completed_;
  std::size_t delivered_ = 0;  ///< of completed_
  bool armed_ = false;
  bool unsettled_ = false;  ///< signalled without a fence
  Status broken_;
};

}  // namespace foldcast::hierarchy
