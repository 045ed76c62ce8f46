#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/foldcast/perf_job.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_record.h"

namespace foldcast::tools {

/// The comment lines above the table: what is measured, with what, and by which ranks. Ends with a newline, as all
/// texts here do.
std::string perf_header(const PerfOptions& options, std::span<const RankPlace> places, std::uint64_t seed);

/// The table as text, a line at a time: one row a size, datatype and op, one block of columns a path.
class PerfTable {
 public:
  /// `plan_width`: of the longest plan name to come; longer ones push their row to the right.
  PerfTable(std::vector<PerfPath> paths, std::size_t plan_width);

  std::string headings() const;
  /// `records`: of one row, one for each path, in the paths' order.
  std::string row(std::span<const PerfRecord> records) const;

 private:
  bool has_ratio() const;
  std::string cells(const PerfRecord& record) const;

  std::vector<PerfPath> paths_;
  std::size_t plan_width_;
};

/// The lines below the table: crossover (where both paths were asked for), average bus bandwidth, the sum of a
/// workload's step, requests that ran elsewhere, and whether all was right. `records` in the order they were measured.
std::string perf_footer(const PerfOptions& options, std::span<const PerfRecord> records);

/// The name a plan has in the table: with a mark when an offload request ran on the hosts.
std::string plan_cell(const PerfRecord& record);

}  // namespace foldcast::tools
