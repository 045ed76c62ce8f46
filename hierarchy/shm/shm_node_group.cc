#include "hierarchy/shm/shm_node_group.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "core/base/log.h"
#include "hierarchy/shm/call_check.h"
#include "hierarchy/shm/rendezvous.h"
#include "hierarchy/shm/shm_engine.h"

namespace foldcast::hierarchy {
namespace {

constexpr std::size_t kMostCompleted = 2 * Lane::kQueue;  ///< not yet polled
/// What one poll() moves before it returns although there is more to do, so that its caller sees its other engines.
constexpr std::uint64_t kPollBytes = 1u << 20;
constexpr std::size_t kMaxNameBytes = 1024;

}  // namespace

ShmNodeGroup::ShmNodeGroup(Membership membership, std::uint32_t rank)
    : membership_(std::move(membership)),
      segment_(*membership_.segment),
      rank_(rank),
      size_(segment_.shape().size),
      lanes_{Lane(membership_.segment, 0, rank), Lane(membership_.segment, 1, rank)} {
  static_assert(kLanes == 2);
  completed_.reserve(kMostCompleted + kLanes * Lane::kQueue);
  segment_.member(rank).reaches_all.store(membership_.cross_memory && reaches_all(), std::memory_order_relaxed);
}

bool ShmNodeGroup::reaches_all() const {
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || transports::reaches(segment_.member(peer).memory)) continue;
    log().debug("local rank {} may not read the memory of local rank {}: data is copied through the shared segment",
                rank_, peer);
    return false;
  }
  return true;
}

GroupCaps ShmNodeGroup::caps() const {
  GroupCaps caps;
  caps.dtypes = GroupCaps::kAllDtypes;
  caps.ops = GroupCaps::kAllOps;
  caps.fragment_bytes = segment_.shape().slot_bytes;
  caps.slots = segment_.shape().slots;
  caps.depth = 1;
  caps.deterministic = true;
  return caps;
}

Posted ShmNodeGroup::post(const EngineCall& call, std::uint64_t cookie) {
  if (armed_) disarm();
  if (completed_.size() - delivered_ >= kMostCompleted) return Posted::kRetry;
  if (!broken_.ok()) {
    completed_.push_back({.cookie = cookie, .status = broken_, .bytes = 0, .signature = {}});
    return Posted::kAccepted;
  }
  if (call.lane < kLanes && lanes_[call.lane].full()) return Posted::kRetry;
  if (Status status = check_call(call, rank_, size_); !status.ok()) {
    completed_.push_back({.cookie = cookie, .status = std::move(status), .bytes = 0, .signature = {}});
    return Posted::kAccepted;
  }
  Lane& lane = lanes_[call.lane];
  lane.push(call, cookie);
  Lane::Outcome outcome;
  lane.publish(outcome);
  if (outcome.signal) signal();
  return Posted::kAccepted;
}

bool ShmNodeGroup::progress() {
  bool moved = false;
  for (std::uint64_t bytes = 0; bytes < kPollBytes && completed_.size() - delivered_ < kMostCompleted;) {
    bool again = false;
    for (Lane& lane : lanes_) {
      const Lane::Outcome outcome = lane.advance(completed_);
      if (outcome.signal) signal();
      if (outcome.broken) {
        break_with(completed_.back().status);
        return true;
      }
      bytes += outcome.bytes;
      again = again || outcome.moved;
    }
    if (!again) break;
    moved = true;
    if (lanes_[0].idle() && lanes_[1].idle()) break;
  }
  return moved;
}

void ShmNodeGroup::ring_sleepers() {
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || segment_.asleep(peer).load(std::memory_order_relaxed) == 0) continue;
    if (segment_.asleep(peer).exchange(0, std::memory_order_acq_rel) == 0) continue;
    membership_.doorbells->ring(membership_.bell_of[peer]);
  }
}

void ShmNodeGroup::signal() {
  // Who sleeps is rung at once. The fence waits until what was stored has left this core, which takes as long as a
  // small call's whole exchange: by the time settle() runs it has happened.
  ring_sleepers();
  unsettled_ = true;
}

void ShmNodeGroup::settle() {
  if (!unsettled_) return;
  unsettled_ = false;
  // Pairs with the fence in arm(): either the sleeper sees what was stored before this fence, or this sees its flag.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring_sleepers();
}

void ShmNodeGroup::disarm() {
  if (!armed_) return;
  armed_ = false;
  segment_.asleep(rank_).store(0, std::memory_order_relaxed);
  membership_.doorbells->disarm();
}

std::size_t ShmNodeGroup::poll(std::span<Completion> out) {
  if (armed_) disarm();
  if (completed_.size() - delivered_ < out.size()) progress();
  settle();
  const std::size_t count = std::min(out.size(), completed_.size() - delivered_);
  for (std::size_t i = 0; i < count; ++i) out[i] = std::move(completed_[delivered_ + i]);
  delivered_ += count;
  if (delivered_ == completed_.size()) {
    completed_.clear();
    delivered_ = 0;
  } else if (delivered_ >= kMostCompleted) {
    completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(delivered_));
    delivered_ = 0;
  }
  return count;
}

bool ShmNodeGroup::arm() {
  settle();
  if (!armed_) {
    armed_ = true;
    membership_.doorbells->arm();
  }
  if (completed_.size() == delivered_) {
    // Without a call nothing can come: a rank in hundreds of groups sleeps without a fence for each.
    if (lanes_[0].idle() && lanes_[1].idle()) return true;
    segment_.asleep(rank_).store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Looking whether there is something to do is doing it: one definition of "ready" and no gap between the two.
    const bool moved = progress();
    settle();
    if (!moved && completed_.size() == delivered_) return true;
  }
  disarm();
  return false;
}

void ShmNodeGroup::cancel(std::uint32_t communicator) {
  if (!broken_.ok()) return;
  break_with(aborted("node group, local rank " + std::to_string(rank_) + ": communicator " +
                     std::to_string(communicator) + " was aborted; make a new one to go on"));
}

void ShmNodeGroup::break_with(const Status& status) {
  broken_ = status.code() == Code::kAborted
                ? status
                : aborted("the node group is broken by an earlier error: " + status.message());
  for (Lane& lane : lanes_) lane.abandon(broken_, completed_);
}

namespace {

Status check_name(const std::string& name, std::size_t size) {
  if (size == 1 || (!name.empty() && name.size() <= kMaxNameBytes)) return ok_status();
  return invalid_argument("a node group's name has 1 to " + std::to_string(kMaxNameBytes) + " bytes, this has " +
                          std::to_string(name.size()));
}

}  // namespace

Result<std::unique_ptr<NodeGroup>> make_shm_node_group(const ShmOptions& options) {
  FOLDCAST_ASSIGN(const SegmentShape shape, SegmentShape::create(options.size, options.slot_bytes, options.slots));
  if (options.rank < 0 || options.rank >= options.size) {
    return invalid_argument("local rank " + std::to_string(options.rank) + " in a node group of " +
                            std::to_string(options.size));
  }
  FOLDCAST_RETURN_IF_ERROR(check_name(options.name, shape.size));
  FOLDCAST_ASSIGN(Meeting met, meet(options, shape, Bells::kMake));
  const auto rank = static_cast<std::uint32_t>(options.rank);
  Membership membership;
  membership.cross_memory = options.cross_memory;
  membership.segment = std::move(met.segment);
  membership.doorbells = std::make_shared<Doorbells>(std::move(met.doorbells), rank);
  for (std::uint32_t peer = 0; peer < shape.size; ++peer) membership.bell_of.push_back(peer);
  return std::unique_ptr<NodeGroup>(std::make_unique<ShmNodeGroup>(std::move(membership), rank));
}

Result<std::unique_ptr<NodeGroup>> make_shm_child_group(const NodeGroup& parent, const ShmChildOptions& options) {
  const auto* group = dynamic_cast<const ShmNodeGroup*>(&parent);
  if (group == nullptr) return invalid_argument("the parent of a shared-memory node group is one, too");
  const Membership& above = group->membership();
  ShmOptions own{.name = options.name,
                 .rank = -1,
                 .size = static_cast<int>(options.members.size()),
                 .slot_bytes = options.slot_bytes,
                 .slots = options.slots,
                 .timeout = options.timeout};
  Membership membership;
  std::vector<bool> seen(above.bell_of.size(), false);
  for (const int member : options.members) {
    const auto index = static_cast<std::size_t>(member);
    if (member < 0 || index >= seen.size() || seen[index]) {
      return invalid_argument("local rank " + std::to_string(member) + " of a node group of " +
                              std::to_string(seen.size()) + " cannot be a member of its child, or is one twice");
    }
    seen[index] = true;
    if (member == parent.rank()) own.rank = static_cast<int>(membership.bell_of.size());
    membership.bell_of.push_back(above.bell_of[index]);
  }
  if (own.rank < 0) {
    return invalid_argument("local rank " + std::to_string(parent.rank()) +
                            " is no member of the child group it makes");
  }
  FOLDCAST_ASSIGN(const SegmentShape shape, SegmentShape::create(own.size, own.slot_bytes, own.slots));
  FOLDCAST_RETURN_IF_ERROR(check_name(own.name, shape.size));
  FOLDCAST_ASSIGN(Meeting met, meet(own, shape, Bells::kHave));
  membership.segment = std::move(met.segment);
  membership.doorbells = above.doorbells;
  membership.cross_memory = above.cross_memory;
  return std::unique_ptr<NodeGroup>(
      std::make_unique<ShmNodeGroup>(std::move(membership), static_cast<std::uint32_t>(own.rank)));
}

}  // namespace foldcast::hierarchy
