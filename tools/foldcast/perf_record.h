#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_statistics.h"

namespace foldcast::tools {

/// The result of one size, datatype, op and path. Equal on all ranks.
struct PerfRecord {
  std::string collective = "all_reduce";
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t occurrences = 1;
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int nranks = 1;
  int nnodes = 1;
  PerfPath asked = PerfPath::kAuto;
  PerfPath ran = PerfPath::kHost;  ///< kOffload or kHost
  std::string plan;
  bool in_place = false;  ///< how it was timed; the check does both
  Timing time_us;
  std::int64_t wire_tx_bytes = 0;  ///< per call, of the node that sent most
  std::int64_t wire_rx_bytes = 0;
  std::optional<std::int64_t> wrong;  ///< elements, summed over ranks; nothing when unchecked

  bool downgraded() const { return asked == PerfPath::kOffload && ran == PerfPath::kHost; }
  double algbw_gbs() const { return algorithm_bandwidth(static_cast<double>(bytes), time_us.median); }
  double busbw_gbs() const { return algbw_gbs() * all_reduce_bus_factor(nranks); }
};

}  // namespace foldcast::tools
