#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/foldcast/perf_job.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_record.h"
#include "tools/foldcast/perf_reference.h"
#include "tools/foldcast/perf_wire.h"

namespace foldcast::tools {

/// One all-reduce to measure, the same on all ranks.
struct PerfCase {
  std::uint64_t bytes = 0;
  std::uint64_t occurrences = 1;
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  PerfPath path = PerfPath::kAuto;
};

/// Measures cases one after the other in two buffers of the largest size. Collective: all ranks measure the same cases
/// in the same order. Throws api::Error, std::bad_alloc, and std::runtime_error where counters cannot be read.
///
/// A case is: check (out of place, then in place), warm-up, timed calls in one or two batches, then out of place a
/// check of what the last of them left. The first batch has kLeastIterations; how many more fit in the time is agreed
/// between the batches, outside of what is timed. Around a batch: barrier, counters, calls, barrier, counters. So the
/// bytes of one barrier a batch are counted in, and nothing of the calls is missed. Times are exchanged after the last
/// call.
class PerfMeasurement {
 public:
  static constexpr std::uint64_t kLeastIterations = 5;

  PerfMeasurement(PerfJob& job, const PerfOptions& options, std::uint64_t seed);

  /// What a case would run as, without running it.
  foldcast_plan_info_t plan_of(const PerfCase& one);
  /// `says` is told what is being done, for a progress line.
  PerfRecord measure(const PerfCase& one, const std::function<void(std::string_view)>& says);

 private:
  struct Buffer {
    std::unique_ptr<std::byte, void (*)(void*)> bytes;
    explicit Buffer(std::size_t size);
  };
  struct Batches {
    std::vector<double> times_us;  ///< of this rank, one an iteration
    WireBytes wire;                ///< of this node, all iterations; zero on ranks that do not read counters
  };

  void use(const PerfCase& one);
  void call(const PerfCase& one, bool in_place);
  Reference fresh_data(const PerfCase& one);
  // Both return the number of wrong elements on all ranks.
  std::int64_t check(const PerfCase& one, const foldcast_plan_info_t& plan, bool in_place);
  std::int64_t judge(const PerfCase& one, const Reference& reference, const std::string& how);
  void warm_up(const PerfCase& one);
  Batches time(const PerfCase& one);
  void agree_on_times(std::vector<double>& times_us);
  void run_batch(const PerfCase& one, std::uint64_t iterations, Batches& batches);
  WireBytes read_counters() const;

  PerfJob& job_;
  const PerfOptions& options_;
  std::uint64_t seed_;
  Buffer send_;
  Buffer recv_;
};

}  // namespace foldcast::tools
