#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/engine.h"
#include "core/base/group_caps.h"
#include "offload/tree.h"

namespace foldcast::offload {

/// A joined group of members on one tree, as an Engine that takes kAllReduce (and kBarrier as an all-reduce of
/// nothing). Large calls are cut into fragments and windowed inside. Calls run in the order they are posted, on one
/// lane; several may be outstanding. input may equal output. kAvg sums; whoever called divides.
///
/// When the tree is lost (aggregator, child or lease gone, deadline of a fragment passed) every outstanding call ends
/// with an error and every later one does at once: kPeerFailed, kTimeout or kMismatch, naming the aggregator or member.
class OffloadGroup : public Engine {
 public:
  virtual GroupCaps caps() const = 0;
  /// "rack0 -> spine, window 16 x 64 KiB", for `explain` and logs.
  virtual std::string describe() const = 0;
};

/// What one member asks for.
struct JoinRequest {
  const Tree* tree = nullptr;   ///< the same on all members
  std::uint32_t group = 0;      ///< id, top bit set, unique in the job, the same on all members
  std::uint64_t job_token = 0;  ///< the job's secret, the same on all members
  std::string job;              ///< for people: name or pid of rank 0
  std::uint32_t incarnation = 1;
  std::int32_t member = 0;                  ///< index among the tree's leaves
  std::chrono::milliseconds timeout{5000};  ///< for the join
  std::chrono::milliseconds fragment_timeout{5000};
  std::string key;  ///< for the control handshake; empty: unauthenticated
};

/// Somebody who offers reduction outside the ranks: our aggregators, SHARP.
class OffloadProvider {
 public:
  virtual ~OffloadProvider() = default;
  /// Joins one member; blocks until granted, refused or timeout. The answer is this member's own: the caller makes the
  /// group agree and drops the group where another member was refused.
  virtual Result<std::unique_ptr<OffloadGroup>> join(const JoinRequest& request) = 0;
};

}  // namespace foldcast::offload
