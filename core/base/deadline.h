#pragma once

#include <algorithm>
#include <chrono>

namespace foldcast {

/// A point in time by which something must have happened. Every wait takes one.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after(std::chrono::nanoseconds time) { return Deadline(Clock::now() + time); }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }
  /// For poll(2): milliseconds left, rounded up, at least 0 and at most `cap`.
  int poll_timeout(int cap = 1 << 30) const {
    auto now = Clock::now();
    if (at_ <= now) return 0;
    if (at_ - now > std::chrono::milliseconds(cap)) return cap;
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(at_ - now).count());
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace foldcast
