#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/status.h"

namespace foldcast::offload {

/// What an aggregator has to give, in all and to one job; 0: no limit of its own.
struct QuotaLimits {
  std::uint32_t groups = 1024, groups_per_job = 0;
  std::uint64_t memory = 1u << 30, memory_per_job = 0;
};

/// Who holds how much. A group's memory is reserved with its first join, so that a full aggregator refuses at once and
/// a group that was let in cannot fail for want of memory later.
class Quota {
 public:
  Quota(std::string aggregator, const QuotaLimits& limits) : aggregator_(std::move(aggregator)), limits_(limits) {}

  /// kResourceExhausted saying which limit; nothing is reserved then.
  Status reserve(std::uint64_t job, std::uint64_t memory);
  void release(std::uint64_t job, std::uint64_t memory);

  std::uint64_t memory() const { return total_.memory; }
  std::uint64_t peak_memory() const { return peak_memory_; }
  std::uint32_t groups() const { return total_.groups; }

 private:
  struct Use {
    std::uint32_t groups = 0;
    std::uint64_t memory = 0;
  };

  const std::string aggregator_;
  const QuotaLimits limits_;
  Use total_;
  std::map<std::uint64_t, Use> jobs_;
  std::uint64_t peak_memory_ = 0;
};

}  // namespace foldcast::offload
