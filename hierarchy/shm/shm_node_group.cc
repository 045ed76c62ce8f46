#include "hierarchy/shm/shm_node_group.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "hierarchy/shm/shm_engine.h"

namespace foldcast::hierarchy {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 56;  ///< of a call; more is a caller's arithmetic gone wrong
constexpr std::size_t kMostCompleted = 2 * Lane::kQueue;      ///< not yet polled
/// What one poll() moves before it returns although there is more to do, so that its caller sees its other engines.
constexpr std::uint64_t kPollBytes = 1u << 20;
constexpr std::size_t kMaxNameBytes = 1024;

}  // namespace

ShmNodeGroup::ShmNodeGroup(Membership membership, std::uint32_t rank)
    : segment_(std::move(membership.segment)),
      doorbells_(std::move(membership.doorbells)),
      rank_(rank),
      lanes_{Lane(segment_, 0, rank), Lane(segment_, 1, rank)} {
  static_assert(kLanes == 2);
  completed_.reserve(kMostCompleted + kLanes * Lane::kQueue);
}

GroupCaps ShmNodeGroup::caps() const {
  GroupCaps caps;
  caps.dtypes = GroupCaps::kAllDtypes;
  caps.ops = GroupCaps::kAllOps;
  caps.fragment_bytes = segment_->shape().slot_bytes;
  caps.slots = segment_->shape().slots;
  caps.depth = 1;
  caps.deterministic = true;
  return caps;
}

Status ShmNodeGroup::check(const EngineCall& call) const {
  const std::string who = "node group, local rank " + std::to_string(rank_) + ": ";
  if (call.lane >= kLanes) return invalid_argument(who + "lane " + std::to_string(call.lane) + " of 2");
  if (call.verb == Verb::kSend || call.verb == Verb::kRecv) return unsupported(who + "send and recv are a transport's");
  if (call.verb == Verb::kBarrier) return ok_status();
  if (!is_valid(call.signature.dtype) || !is_valid(call.signature.op)) {
    return invalid_argument(who + "unknown datatype or op");
  }
  if (call.count > kMostBytes / size_of(call.signature.dtype)) {
    return invalid_argument(who + "count " + std::to_string(call.count) + " is more than memory can hold");
  }
  if (call.count != 0 && (call.input == nullptr || call.output == nullptr)) {
    return invalid_argument(who + "a null buffer with count " + std::to_string(call.count));
  }
  const bool sharded = call.verb == Verb::kReduceScatter || call.verb == Verb::kAllGather;
  if (sharded && (call.owners < 1 || call.owners > segment_->shape().size)) {
    return invalid_argument(who + std::to_string(call.owners) + " owners in a group of " + std::to_string(size()));
  }
  if (call.verb == Verb::kBroadcast && (call.peer < 0 || call.peer >= size())) {
    return invalid_argument(who + "broadcast from local rank " + std::to_string(call.peer) + " in a group of " +
                            std::to_string(size()));
  }
  return ok_status();
}

Posted ShmNodeGroup::post(const EngineCall& call, std::uint64_t cookie) {
  if (completed_.size() - delivered_ >= kMostCompleted) return Posted::kRetry;
  if (!broken_.ok()) {
    completed_.push_back({.cookie = cookie, .status = broken_, .bytes = 0, .signature = {}});
    return Posted::kAccepted;
  }
  if (call.lane < kLanes && lanes_[call.lane].full()) return Posted::kRetry;
  if (Status status = check(call); !status.ok()) {
    completed_.push_back({.cookie = cookie, .status = status, .bytes = 0, .signature = {}});
    return Posted::kAccepted;
  }
  Lane& lane = lanes_[call.lane];
  lane.push(call, cookie);
  Lane::Outcome outcome;
  lane.publish(outcome);
  if (outcome.signal) ring_sleepers();
  return Posted::kAccepted;
}

bool ShmNodeGroup::progress() {
  bool moved = false;
  for (std::uint64_t bytes = 0; bytes < kPollBytes && completed_.size() - delivered_ < kMostCompleted;) {
    bool again = false;
    for (Lane& lane : lanes_) {
      const Lane::Outcome outcome = lane.advance(completed_);
      if (outcome.signal) ring_sleepers();
      if (outcome.broken) {
        break_with(completed_.back().status);
        return true;
      }
      bytes += outcome.bytes;
      again = again || outcome.moved;
    }
    if (!again) break;
    moved = true;
  }
  return moved;
}

void ShmNodeGroup::ring_sleepers() {
  // Pairs with the fence in arm(): either the sleeper sees what was stored before this fence, or this sees its flag.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::uint32_t peer = 0; peer < segment_->shape().size; ++peer) {
    if (peer == rank_ || segment_->asleep(peer).load(std::memory_order_relaxed) == 0) continue;
    if (segment_->asleep(peer).exchange(0, std::memory_order_acq_rel) == 0) continue;
    const std::uint64_t one = 1;
    // The counter cannot overflow, and a doorbell that is already rung stays rung.
    [[maybe_unused]] ssize_t written = ::write(doorbells_[peer].get(), &one, sizeof one);
  }
}

void ShmNodeGroup::disarm() {
  armed_ = false;
  segment_->asleep(rank_).store(0, std::memory_order_relaxed);
  std::uint64_t rings = 0;
  [[maybe_unused]] ssize_t taken = ::read(doorbells_[rank_].get(), &rings, sizeof rings);
}

std::size_t ShmNodeGroup::poll(std::span<Completion> out) {
  if (armed_) disarm();
  if (completed_.size() - delivered_ < out.size()) progress();
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
  armed_ = true;
  segment_->asleep(rank_).store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Looking whether there is something to do is doing it: one definition of "ready" and no gap between the two.
  const bool moved = progress();
  if (!moved && completed_.size() == delivered_) return true;
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

Result<std::unique_ptr<NodeGroup>> make_shm_node_group(const ShmOptions& options) {
  FOLDCAST_ASSIGN(const SegmentShape shape, SegmentShape::create(options.size, options.slot_bytes, options.slots));
  if (options.rank < 0 || options.rank >= options.size) {
    return invalid_argument("local rank " + std::to_string(options.rank) + " in a node group of " +
                            std::to_string(options.size));
  }
  if (options.size > 1 && (options.name.empty() || options.name.size() > kMaxNameBytes)) {
    return invalid_argument("a node group's name has 1 to " + std::to_string(kMaxNameBytes) + " bytes, this has " +
                            std::to_string(options.name.size()));
  }
  FOLDCAST_ASSIGN(Membership membership, meet(options, shape));
  return std::unique_ptr<NodeGroup>(
      std::make_unique<ShmNodeGroup>(std::move(membership), static_cast<std::uint32_t>(options.rank)));
}

}  // namespace foldcast::hierarchy
