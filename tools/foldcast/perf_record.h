#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/collective.h"
#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_overlap.h"
#include "tools/foldcast/perf_shape.h"
#include "tools/foldcast/perf_statistics.h"

namespace foldcast::tools {

/// The result of one size, datatype, op, root and path. Equal on all ranks.
struct PerfRecord {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes = 0;  ///< of the larger buffer
  std::uint64_t count = 0;  ///< the call's argument; of variable counts: the mean
  std::uint64_t occurrences = 1;
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< means nothing where nothing is reduced
  int root = 0;                  ///< means nothing where there is none
  WireFormat wire = WireFormat::kExact;
  int nranks = 1;
  int nnodes = 1;
  PerfPath asked = PerfPath::kAuto;
  PerfPath ran = PerfPath::kHost;  ///< kOffload or kHost
  std::string plan;
  bool in_place = false;  ///< how it was timed; the check does both
  Timing time_us;
  std::optional<Overlap> overlap;  ///< with --overlap; time_us is then of a non-blocking call and its wait
  std::int64_t wire_tx_bytes = 0;  ///< per call, of the node that sent most
  std::int64_t wire_rx_bytes = 0;
  std::optional<std::int64_t> wrong;  ///< elements, summed over ranks; nothing when unchecked

  bool downgraded() const { return asked == PerfPath::kOffload && ran == PerfPath::kHost; }
  std::string_view op_name() const { return reduces(collective) ? to_string(op) : "none"; }
  double algbw_gbs() const { return algorithm_bandwidth(static_cast<double>(bytes), time_us.median); }
  double busbw_gbs() const { return algbw_gbs() * bus_factor(collective, nranks); }
};

}  // namespace foldcast::tools
