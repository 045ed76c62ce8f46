#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hierarchy/node_group.h"
#include "hierarchy/shm/lane.h"
#include "hierarchy/shm/rendezvous.h"

namespace foldcast::hierarchy {

/// See make_shm_node_group. Members of one process may share one Segment.
class ShmNodeGroup final : public NodeGroup {
 public:
  ShmNodeGroup(Membership membership, std::uint32_t rank);

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return doorbells_[rank_].get(); }
  bool arm() override;
  void cancel(std::uint32_t communicator) override;

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(segment_->shape().size); }
  GroupCaps caps() const override;

 private:
  Status check(const EngineCall& call) const;
  bool progress();
  void ring_sleepers();
  void disarm();
  void break_with(const Status& status);

  std::shared_ptr<Segment> segment_;
  std::vector<UniqueFd> doorbells_;
  std::uint32_t rank_;
  std::array<Lane, kLanes> lanes_;
  std::vector<Completion> completed_;
  std::size_t delivered_ = 0;  ///< of completed_
  bool armed_ = false;
  Status broken_;
};

}  // namespace foldcast::hierarchy
