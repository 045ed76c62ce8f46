#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/algorithms/scratch_ring.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// All members but `self`, the nearest first, those before and behind it by turns.
inline std::vector<std::uint32_t> outward_from(std::uint32_t self, std::uint32_t members) {
  std::vector<std::uint32_t> order;
  order.reserve(members);
  for (std::uint32_t distance = 1; distance < members; ++distance) {
    if (self + distance < members) order.push_back(self + distance);
    if (distance <= self) order.push_back(self - distance);
  }
  return order;
}

/// Sums one chunk over members that are added from the nearest outwards, so that what has been added is always an
/// interval of them and in their order. What arrives waits in up to four scratch units.
class OutwardSum {
 public:
  /// `own` is this member's contribution; `target` gets the sum, and nothing before. `builder` must outlive this.
  OutwardSum(Builder& builder, const Chunk& target, const Chunk& own)
      : builder_(builder), scratch_(builder), target_(target), sum_(own) {}

  /// Receives the next contribution and adds it. `is_lower`: it stands before all so far; `is_last`: it is the last.
  void add(std::int32_t peer, std::uint32_t channel, bool is_lower, bool is_last) {
    const Chunk received = scratch_.next(target_);
    const Chunk wider = is_last ? target_ : received;
    builder_.recv(peer, received, channel);
    builder_.reduce(wider, is_lower ? received : sum_, is_lower ? sum_ : received);
    sum_ = wider;
  }

 private:
  Builder& builder_;
  ScratchRing<4> scratch_;
  Chunk target_, sum_;
};

}  // namespace foldcast::schedule
