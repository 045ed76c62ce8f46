#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/foldcast/perf_job.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_record.h"

namespace foldcast::tools {

/// The comment lines above the table: what is measured, with what, and by which ranks. Ends with a newline, as all
/// texts here do.
std::string perf_header(const PerfOptions& options, std::span<const RankPlace> places, std::uint64_t seed);

/// The table as text, a line at a time: one row a size, datatype, op and root, one block of columns a path.
class PerfTable {
 public:
  /// What is to come; wider cells push their row to the right.
  struct Widest {
    std::size_t plan = 4;          ///< characters of a plan's name
    std::uint64_t size = 9999999;  ///< bytes
  };
  /// `options` are borrowed.
  PerfTable(const PerfOptions& options, const Widest& widest);

  std::string headings() const;
  /// `records`: of one row, one for each path, in the paths' order.
  std::string row(std::span<const PerfRecord> records) const;

 private:
  bool has_ratio() const;
  std::string left_cells(std::string_view size, std::string_view count, std::string_view type, std::string_view op,
                         std::string_view root) const;
  std::string path_headings(bool units) const;
  std::string cells(const PerfRecord& record) const;

  const PerfOptions& options_;
  std::size_t plan_width_;
  std::size_t size_width_;
  std::size_t type_width_ = 8;
  std::size_t op_width_ = 5;
};

/// The lines below the table: crossover (where both paths were asked for), average bus bandwidth, the sum of a
/// workload's step, requests that ran elsewhere, and whether all was right. `records` in the order they were measured.
std::string perf_footer(const PerfOptions& options, std::span<const PerfRecord> records);

/// The name a plan has in the table: with a mark when an offload request ran on the hosts.
std::string plan_cell(const PerfRecord& record);

}  // namespace foldcast::tools
