#include "tools/foldcast/perf_overlap.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace foldcast::tools {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr double kLeastCalibrationUs = 2000;
constexpr int kCalibrations = 5;

}  // namespace

Overlap Overlap::of(double call_us, double compute_us, double total_us) {
  Overlap overlap{compute_us, total_us, 0};
  if (call_us > 0) overlap.percent = std::clamp(100 * (1 - (total_us - compute_us) / call_us), 0.0, 100.0);
  return overlap;
}

ComputeLoop::ComputeLoop() {
  for (double& value : values_) value = 0.5;
  std::uint64_t units = 1024;
  double best = 0;
  // The shortest of several: what else runs on the machine only ever makes them longer.
  for (int done = 0; done < kCalibrations;) {
    double start = now_us();
    compute(units);
    double took = now_us() - start;
    if (took < kLeastCalibrationUs && done == 0) {
      units *= 2;
      continue;
    }
    best = done == 0 ? took : std::min(best, took);
    ++done;
  }
  us_per_unit_ = best / static_cast<double>(units);
}

void ComputeLoop::compute(std::uint64_t units) {
  // A recurrence that stays between 0 and 1 and that no compiler can shorten; its result is a member, so it is kept.
  for (std::uint64_t unit = 0; unit < units; ++unit) {
    for (double& value : values_) value = 3.75 * value * (1 - value);
  }
}

void ComputeLoop::run(double us) { compute(static_cast<std::uint64_t>(std::llround(us / us_per_unit_))); }

void ComputeLoop::run_beside(double us, double every_us, std::vector<api::Request>& requests) {
  if (every_us <= 0) return run(us);
  for (double left = us; left > 0; left -= every_us) {
    run(std::min(left, every_us));
    for (api::Request& request : requests) (void)request.test();
  }
}

}  // namespace foldcast::tools
