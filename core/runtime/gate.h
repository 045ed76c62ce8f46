#pragma once

#include <atomic>
#include <mutex>

namespace foldcast::runtime {

/// Lets one thread at a time into a context. A thread that drives calls holds it for long, so it asks wanted() between
/// passes and lets others in: a plain mutex would be taken again by the same thread before anybody wakes up.
class Gate {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    wanting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    wanting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() { mutex_.unlock(); }
  bool wanted() const { return wanting_.load(std::memory_order_relaxed) > 0; }

 private:
  std::mutex mutex_;
  std::atomic<int> wanting_{0};
};

using Lock = std::unique_lock<Gate>;

}  // namespace foldcast::runtime
