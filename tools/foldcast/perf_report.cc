#include "tools/foldcast/perf_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/api/foldcast.h"

namespace foldcast::tools {
namespace {

constexpr std::size_t kMostRankLines = 64;

/// Microseconds in at most seven characters up to 10 s.
std::string time_cell(double us) { return fmt::format("{:.{}f}", us, us < 100 ? 2 : us < 10000 ? 1 : 0); }

/// Four significant digits, at most six characters up to 99999.
std::string bandwidth_cell(double gbs) {
  int before = gbs < 1 ? 0 : static_cast<int>(std::floor(std::log10(gbs)));
  return fmt::format("{:.{}f}", gbs, gbs == 0 ? 0 : std::max(0, gbs < 1 ? 4 : 3 - before));
}

/// Bytes with four significant digits and a decimal unit.
std::string bytes_cell(std::int64_t bytes) {
  constexpr std::string_view units = "KMGTPE";
  if (bytes < 10000) return fmt::format("{}", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1000; value >= 999.95 && unit + 1 < units.size(); ++unit) value /= 1000;
  int decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
  return fmt::format("{:.{}f}{}", value, decimals, units[unit]);
}

std::string wrong_cell(const PerfRecord& record) { return record.wrong ? fmt::format("{}", *record.wrong) : "N/A"; }

const PerfRecord* find(std::span<const PerfRecord> records, PerfPath asked) {
  auto at = std::find_if(records.begin(), records.end(), [&](const PerfRecord& r) { return r.asked == asked; });
  return at == records.end() ? nullptr : &*at;
}

/// Host time over offload time where both ran as asked.
std::optional<double> ratio(std::span<const PerfRecord> row) {
  const PerfRecord* offload = find(row, PerfPath::kOffload);
  const PerfRecord* host = find(row, PerfPath::kHost);
  if (offload == nullptr || host == nullptr || offload->downgraded() || offload->time_us.median <= 0)
    return std::nullopt;
  return host->time_us.median / offload->time_us.median;
}

/// What is measured at several sizes: "float32 sum, root 1".
std::string shape_text(const PerfRecord& record) {
  std::string text(to_string(record.dtype));
  if (reduces(record.collective)) text += fmt::format(" {}", to_string(record.op));
  if (has_root(record.collective)) text += fmt::format(", root {}", record.root);
  return text;
}

/// Records by datatype, op and root, in order of appearance.
std::vector<std::vector<PerfRecord>> by_shape(std::span<const PerfRecord> records) {
  std::vector<std::vector<PerfRecord>> groups;
  for (const PerfRecord& record : records) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front().dtype == record.dtype && group.front().op == record.op && group.front().root == record.root;
    });
    if (same == groups.end()) same = groups.insert(groups.end(), std::vector<PerfRecord>());
    same->push_back(record);
  }
  return groups;
}

std::string crossover_line(std::span<const PerfRecord> group) {
  std::map<std::uint64_t, PathTimes> times;
  for (const PerfRecord& record : group) {
    if (record.bytes == 0) continue;  // nothing is reduced, so nothing is compared
    PathTimes& at = times[record.bytes];
    at.bytes = static_cast<double>(record.bytes);
    if (record.asked == PerfPath::kOffload && !record.downgraded()) at.offload_us = record.time_us.median;
    if (record.asked == PerfPath::kHost) at.host_us = record.time_us.median;
  }
  std::vector<PathTimes> list;
  for (const auto& [bytes, at] : times) list.push_back(at);
  std::optional<double> from = crossover(list);
  std::string shape = shape_text(group.front());
  if (!from) {
    return fmt::format("# Crossover ({}): none, at the largest size the offload path is not faster\n", shape);
  }
  return fmt::format(
      "# Crossover ({}): {:.0f} bytes, from there on the offload path is faster at every size measured\n", shape,
      *from);
}

std::string step_line(const PerfOptions& options, std::span<const PerfRecord> group) {
  std::vector<std::string> sums;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  for (PerfPath path : options.paths) {
    double us = 0;
    calls = bytes = 0;
    for (const PerfRecord& record : group) {
      if (record.asked != path) continue;
      us += record.time_us.median * static_cast<double>(record.occurrences);
      calls += record.occurrences;
      bytes += record.bytes * record.occurrences;
    }
    sums.push_back(fmt::format("{} {:.0f} us", to_string(path), us));
  }
  return fmt::format("# One step of {} ({}, {} calls, {} bytes), sum of medians x occurrences: {}\n",
                     options.sizes_from, shape_text(group.front()), calls, bytes, fmt::join(sums, ", "));
}

std::string average_line(std::span<const PerfRecord> records, PerfPath path) {
  double sum = 0;
  int sizes = 0;
  for (const PerfRecord& record : records) {
    if (record.asked != path || record.bytes == 0) continue;
    sum += record.busbw_gbs();
    ++sizes;
  }
  return fmt::format("# Avg bus bandwidth ({}): {} GB/s\n", to_string(path),
                     bandwidth_cell(sizes == 0 ? 0 : sum / sizes));
}

std::string downgrade_line(std::span<const PerfRecord> records) {
  auto downgraded = [](const PerfRecord& record) { return record.downgraded(); };
  auto count = std::count_if(records.begin(), records.end(), downgraded);
  if (count == 0) return {};
  const PerfRecord& one = *std::find_if(records.begin(), records.end(), downgraded);
  std::string command =
      fmt::format("foldcast explain {} -b {} -d {}", to_string(one.collective), one.bytes, to_string(one.dtype));
  if (reduces(one.collective)) command += fmt::format(" -o {}", to_string(one.op));
  if (has_root(one.collective)) command += fmt::format(" -r {}", one.root);
  return fmt::format(
      "# Marked (HOST): {} of the offload requests ran on the hosts; for the reason run: {} --path offload\n", count,
      command);
}

std::string verdict_line(std::span<const PerfRecord> records) {
  std::int64_t wrong = 0;
  std::size_t bad = 0;
  bool checked = false;
  for (const PerfRecord& record : records) {
    checked |= record.wrong.has_value();
    wrong += record.wrong.value_or(0);
    bad += record.wrong.value_or(0) > 0 ? 1 : 0;
  }
  if (!checked) return "# Out of bounds values: not checked (-c 0)\n";
  if (wrong == 0) return "# Out of bounds values: 0 OK\n";
  return fmt::format("# Out of bounds values: {} FAILED, in {} of {} measurements\n", wrong, bad, records.size());
}

std::string rank_line(std::size_t rank, const RankPlace& place) {
  return fmt::format("#  Rank {:>3} node {:>3} pid {:>7} on {}\n", rank, place.node, place.pid, place.host);
}

}  // namespace

std::string plan_cell(const PerfRecord& record) { return record.plan + (record.downgraded() ? "(HOST)" : ""); }

std::string perf_header(const PerfOptions& options, std::span<const RankPlace> places, std::uint64_t seed) {
  int nodes = 0;
  for (const RankPlace& place : places) nodes = std::max(nodes, place.node + 1);
  std::string text = fmt::format("# foldcast perf {}, version {}\n", to_string(options.collective), foldcast_version());
  text += fmt::format("# nranks {} nnodes {} sizes: {}; warmup iters: {} iters: {}{} blocking: {} check: {} seed: {}\n",
                      places.size(), nodes, options.size_rule, options.warmup, options.iterations,
                      options.seconds > 0 ? fmt::format(" (5 or as many as fit in {} s)", options.seconds) : "",
                      options.blocking ? 1 : 0, options.check ? 1 : 0, seed);
  std::vector<std::string_view> dtypes;
  for (Datatype dtype : options.datatypes) dtypes.push_back(to_string(dtype));
  std::vector<std::string_view> ops;
  for (ReduceOp op : options.ops) ops.push_back(to_string(op));
  text += fmt::format("# type: {}", fmt::join(dtypes, ","));
  if (reduces(options.collective)) text += fmt::format(" redop: {}", fmt::join(ops, ","));
  if (has_root(options.collective)) {
    text += options.root == kAllRoots ? " root: all in turn" : fmt::format(" root: {}", options.root);
  }
  if (options.wire != WireFormat::kExact) text += fmt::format(" wire format: {}", to_string(options.wire));
  text += fmt::format(" timed: {}{} plan: {}\n#\n", options.in_place ? "in place" : "out of place",
                      options.overlap ? ", non-blocking and beside a computation" : "",
                      options.plan.empty() ? "chosen by price" : options.plan);
  text += "# Using ranks\n";
  for (std::size_t rank = 0; rank < std::min(places.size(), kMostRankLines); ++rank)
    text += rank_line(rank, places[rank]);
  if (places.size() > kMostRankLines) text += fmt::format("#  and {} more ranks\n", places.size() - kMostRankLines);
  constexpr std::array<std::string_view, 4> kWhose = {"rank 0's", "the ranks' average", "the fastest rank's",
                                                      "the slowest rank's"};
  text += fmt::format(
      "#\n# time: a call's, {}; algbw, busbw: of the median; wire tx, rx: bytes a call, of the busiest node"
      " (K M G: powers of 1000)\n#\n",
      kWhose[static_cast<std::size_t>(options.across)]);
  if (options.overlap) {
    text += fmt::format(
        "# overlap: 100 (1 - (total - compute) / median); compute: alone; total: call, compute, wait; progress asked "
        "for: "
        "{}\n#\n",
        options.test_every_us > 0 ? fmt::format("every {} us", options.test_every_us) : "never");
  }
  return text;
}

PerfTable::PerfTable(const PerfOptions& options, const Widest& widest)
    : options_(options),
      plan_width_(std::max<std::size_t>(widest.plan, 4)),
      size_width_(std::max<std::size_t>(fmt::formatted_size("{}", widest.size), 9)) {
  for (Datatype dtype : options.datatypes) {
    type_width_ = std::max(type_width_, to_string(dtype).size());
    for (ReduceOp op : options.ops_of(dtype)) op_width_ = std::max(op_width_, to_string(op).size());
  }
}

bool PerfTable::has_ratio() const {
  return std::count(options_.paths.begin(), options_.paths.end(), PerfPath::kOffload) > 0 &&
         std::count(options_.paths.begin(), options_.paths.end(), PerfPath::kHost) > 0;
}

std::string PerfTable::left_cells(std::string_view size, std::string_view count, std::string_view type,
                                  std::string_view op, std::string_view root) const {
  std::string text = fmt::format("{:>{}} {:>{}} {:>{}}", size, size_width_, count, size_width_, type, type_width_);
  if (reduces(options_.collective)) text += fmt::format(" {:>{}}", op, op_width_);
  if (has_root(options_.collective)) text += fmt::format(" {:>4}", root);
  return text;
}

std::string PerfTable::path_headings(bool units) const {
  std::string text = units ? fmt::format("  {:<{}} {:>7} {:>7} {:>7}", "", plan_width_, "(us)", "(us)", "(us)")
                           : fmt::format("  {:<{}} {:>7} {:>7} {:>7}", "plan", plan_width_, "min", "median", "p99");
  if (options_.overlap) {
    text += units ? fmt::format(" {:>7} {:>7} {:>7}", "(us)", "(us)", "(%)")
                  : fmt::format(" {:>7} {:>7} {:>7}", "compute", "total", "overlap");
  }
  return text + (units ? fmt::format(" {:>6} {:>6} {:>6} {:>6} {:>6}", "(GB/s)", "(GB/s)", "", "(B)", "(B)")
                       : fmt::format(" {:>6} {:>6} {:>6} {:>6} {:>6}", "algbw", "busbw", "#wrong", "tx", "rx"));
}

std::string PerfTable::headings() const {
  std::string columns = "#" + left_cells("size", "count", "type", "redop", "root");
  std::string units = "#" + left_cells("(B)", "(elems)", "", "", "");
  std::string names = fmt::format("#{:{}}", "", columns.size() - 1);
  for (PerfPath path : options_.paths) {
    std::string block = path_headings(false);
    names += fmt::format("  {:-^{}}", fmt::format(" {} ", to_string(path)), block.size() - 2);
    columns += block;
    units += path_headings(true);
  }
  if (has_ratio()) {
    columns += fmt::format("  {:>7}", "host/");
    units += fmt::format("  {:>7}", "offload");
  }
  return names + "\n" + columns + "\n" + units + "\n";
}

std::string PerfTable::cells(const PerfRecord& record) const {
  const Timing& time = record.time_us;
  std::string text = fmt::format("  {:<{}} {:>7} {:>7} {:>7}", plan_cell(record), plan_width_, time_cell(time.min),
                                 time_cell(time.median), time_cell(time.p99));
  if (record.overlap) {
    text += fmt::format(" {:>7} {:>7} {:>7.1f}", time_cell(record.overlap->compute_us),
                        time_cell(record.overlap->total_us), record.overlap->percent);
  }
  return text + fmt::format(" {:>6} {:>6} {:>6} {:>6} {:>6}", bandwidth_cell(record.algbw_gbs()),
                            bandwidth_cell(record.busbw_gbs()), wrong_cell(record), bytes_cell(record.wire_tx_bytes),
                            bytes_cell(record.wire_rx_bytes));
}

std::string PerfTable::row(std::span<const PerfRecord> records) const {
  const PerfRecord& first = records.front();
  std::string line = " " + left_cells(fmt::format("{}", first.bytes), fmt::format("{}", first.count),
                                      to_string(first.dtype), first.op_name(), fmt::format("{}", first.root));
  for (const PerfRecord& record : records) line += cells(record);
  if (has_ratio()) {
    std::optional<double> times = ratio(records);
    line += fmt::format("  {:>7}", times ? fmt::format("{:.2f}", *times) : "-");
  }
  return line + "\n";
}

std::string perf_footer(const PerfOptions& options, std::span<const PerfRecord> records) {
  std::string text = "#\n";
  bool compares = find(records, PerfPath::kOffload) != nullptr && find(records, PerfPath::kHost) != nullptr;
  for (const std::vector<PerfRecord>& group : by_shape(records)) {
    if (compares) text += crossover_line(group);
    if (!options.sizes_from.empty()) text += step_line(options, group);
  }
  for (PerfPath path : options.paths) text += average_line(records, path);
  return text + downgrade_line(records) + verdict_line(records);
}

}  // namespace foldcast::tools
