#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/base/engine.h"

namespace foldcast::transports {

/// Completions between where they happen and the poll() that hands them out, first-in-first-out. Keeps its memory, so
/// the steady state allocates nothing. One thread.
class CompletionQueue {
 public:
  void push(std::uint64_t cookie, Status status = {}) { push({cookie, std::move(status), 0, {}}); }
  void push(Completion completion) { items_.push_back(std::move(completion)); }
  bool empty() const { return size() == 0; }
  std::size_t size() const { return items_.size() - head_; }

  std::size_t pop(std::span<Completion> out) {
    std::size_t count = 0;
    while (count < out.size() && head_ < items_.size()) out[count++] = std::move(items_[head_++]);
    if (empty()) {
      items_.clear();
      head_ = 0;
    } else if (head_ >= kCompactAt && head_ * 2 >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return count;
  }

 private:
  static constexpr std::size_t kCompactAt = 1024;
  std::vector<Completion> items_;
  std::size_t head_ = 0;
};

}  // namespace foldcast::transports
