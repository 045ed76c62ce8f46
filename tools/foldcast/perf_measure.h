#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/foldcast/perf_buffers.h"
#include "tools/foldcast/perf_call.h"
#include "tools/foldcast/perf_job.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_overlap.h"
#include "tools/foldcast/perf_record.h"
#include "tools/foldcast/perf_shape.h"
#include "tools/foldcast/perf_wire.h"

namespace foldcast::tools {

/// One collective to measure, the same on all ranks.
struct PerfCase {
  Collective collective = Collective::kAllReduce;
  SizedCount size;
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  PerfPath path = PerfPath::kAuto;

  foldcast_shape_t shape() const;
};

/// "1024 bytes float32 sum, root 2": for people.
std::string to_string(const PerfCase& one);

/// Measures cases one after the other in two buffers with room for the largest. Collective: all ranks measure the same
/// cases in the same order. Throws api::Error, std::bad_alloc, and std::runtime_error where counters cannot be read.
///
/// A case is: check (out of place, then in place), warm-up, timed calls in one or two batches, then out of place a
/// check of what the last of them left. The first batch has kLeastIterations; how many more fit in the time is agreed
/// between the batches, outside of what is timed. Around a batch: barrier, counters, calls, barrier, counters. So the
/// bytes of one barrier a batch are counted in, and nothing of the calls is missed. Times are exchanged after the last
/// call. With --overlap the timed calls are non-blocking ones that are waited for, and after them as many are made
/// beside a computation that takes as long.
class PerfMeasurement {
 public:
  static constexpr std::uint64_t kLeastIterations = 5;

  struct Setting {
    std::uint64_t seed = 0;
    std::uint64_t room = 0;  ///< bytes that the largest case needs of a buffer
  };
  PerfMeasurement(PerfJob& job, const PerfOptions& options, const Setting& setting);

  /// Bytes that a case needs of a buffer.
  static std::uint64_t room_for(const PerfCase& one, int ranks);

  /// What a case would run as, without running it.
  foldcast_plan_info_t plan_of(const PerfCase& one);
  /// `says` is told what is being done, for a progress line.
  PerfRecord measure(const PerfCase& one, const std::function<void(std::string_view)>& says);

 private:
  struct Batches {
    std::vector<double> times_us;  ///< of this rank, one an iteration
    WireBytes wire;                ///< of this node, all iterations; zero on ranks that do not read counters
  };
  using Call = std::function<void()>;

  void use(const PerfCase& one);
  PerfCall call_of(const PerfCase& one, bool in_place) const;
  foldcast_op_t abi_op(const PerfCase& one);
  Expectation fresh_data(const PerfCall& call, const CallLayout& layout);
  // All return the number of wrong elements on all ranks.
  std::int64_t check(const PerfCase& one, const foldcast_plan_info_t& plan);
  std::int64_t check_once(const PerfCase& one, const foldcast_plan_info_t& plan, bool in_place);
  std::int64_t judge(const PerfCase& one, const Expectation& expected, const std::string& how);
  std::int64_t agree_on_wrong(const PerfCase& one, const Wrong& wrong, const std::string& how);

  void time(const PerfCase& one, PerfRecord& record);
  void warm_up(const PerfCase& one, const Call& call);
  Batches run(const PerfCase& one, const Call& call);
  void run_batch(const PerfCase& one, const Call& call, std::uint64_t iterations, Batches& batches);
  Overlap overlap(const PerfCase& one, const BoundCall& bound, const PerfRecord& record, std::uint64_t iterations);
  double median_of(const std::function<void()>& work, std::uint64_t iterations, bool meet);
  void agree_on_times(std::vector<double>& times_us);
  WireBytes read_counters() const;

  PerfJob& job_;
  const PerfOptions& options_;
  std::uint64_t seed_;
  PerfBuffers buffers_;
  std::optional<ComputeLoop> compute_;       ///< made when first needed: it takes time
  std::map<Datatype, api::Op> premul_sums_;  ///< made when first needed, so in the same order on all ranks
};

}  // namespace foldcast::tools
