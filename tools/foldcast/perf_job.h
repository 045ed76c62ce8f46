#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "core/api/foldcast.hpp"
#include "tools/foldcast/perf_options.h"

namespace foldcast::tools {

/// Where one rank of the job runs.
struct RankPlace {
  int node = 0;
  int pid = 0;
  std::string host;
};

/// The exit code of a command that ended with `error`: 2 for the user's mistake (a plan that does not exist), else 1.
int exit_code_of(const std::exception& error);

/// The job under measurement and what its ranks must agree on. Every method is collective and throws api::Error; after
/// that the job is broken and the process should end at once. One thread.
///
/// Agreement always goes over the hosts with the plan chosen by price: what judges a path must not depend on it;
/// and exactly, whatever the wire format.
class PerfJob {
 public:
  PerfJob();

  int rank() const { return rank_; }
  int size() const { return size_; }
  int nodes() const { return nodes_; }
  /// One rank of each node reads the node's counters.
  bool reads_counters() const { return comm_.local_rank() == 0; }
  api::Communicator& comm() { return comm_; }

  /// What the next calls run as; `plan` empty: by price.
  void use(PerfPath path, const std::string& plan, WireFormat wire = WireFormat::kExact);

  // Element by element over all ranks, in place. They leave the job on the host path: call use() again.
  void agree(std::span<double> values, foldcast_op_t op);
  void agree(std::span<std::int64_t> values, foldcast_op_t op);
  double agree_max(double value);
  std::int64_t agree_sum(std::int64_t value);
  /// Whether the bytes are the same on all ranks, as far as a 64-bit fingerprint can tell.
  bool are_equal_everywhere(std::span<const std::byte> bytes);
  /// Rank 0's value.
  std::uint64_t share(std::uint64_t value);

  std::vector<RankPlace> places();

 private:
  api::Communicator comm_;
  int rank_;
  int size_;
  int nodes_;
  WireFormat wire_ = WireFormat::kExact;
};

}  // namespace foldcast::tools
