#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/api/communicator.h"

namespace foldcast::api {

/// Several small all_reduces as one: their inputs side by side in one buffer, which is reduced in place and handed out
/// again. One thread.
class FusedCalls {
 public:
  /// What one call may have to be worth copying, and all together.
  static constexpr std::uint64_t kLargestCall = 32u << 10;
  static constexpr std::uint64_t kLargest = 1u << 20;

  /// Whether a call can be fused at all.
  static bool takes(const CollectiveCall& call);
  /// Whether `next` can join those that are there. All calls are valid.
  bool takes_next(const CollectiveCall& next) const;
  void add(const CollectiveCall& call) { calls_.push_back(call); }
  std::size_t size() const { return calls_.size(); }

  Status start(Communicator& communicator);
  bool test();
  /// Once for all; the same answer to everybody who asks later.
  Status finish();

 private:
  std::uint64_t bytes() const;

  std::vector<CollectiveCall> calls_;
  std::vector<std::byte> buffer_;
  Communicator* communicator_ = nullptr;
  Operation operation_;
  bool finished_ = false;
  Status status_;
};

}  // namespace foldcast::api
