#pragma once

#include <cstdint>

#include "tools/foldcast/perf_job.h"

namespace foldcast::tools {

/// Runs barriers to which one rank after the other comes late, and returns how many ranks left one before the last had
/// come. Only clocks of one machine are compared, those of ranks with equal boot ids; a rank alone on its machine is
/// not judged. Collective; the job is left on the path that agreement takes.
class BarrierCheck {
 public:
  explicit BarrierCheck(PerfJob& job) : job_(job) {}
  /// `use` is called before each barrier: it puts the job on the path under test.
  template <typename Use>
  std::int64_t run(Use use) {
    std::int64_t wrong = 0;
    for (int late = 0; late < rounds(); ++late) {
      use();
      wrong += round(late);
    }
    return wrong;
  }

 private:
  int rounds() const;
  std::int64_t round(int late);

  PerfJob& job_;
};

}  // namespace foldcast::tools
