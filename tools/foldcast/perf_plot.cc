#include "tools/foldcast/perf_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tools/foldcast/perf_gnuplot.h"
#include "tools/system/file.h"
#include "tools/system/program.h"

namespace foldcast::tools {
namespace {

/// Okabe and Ito's palette: told apart with every kind of colour vision.
constexpr std::array<const char*, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#000000"};
constexpr std::array<int, 7> kMarks = {7, 5, 9, 13, 11, 6, 4};
constexpr std::size_t kMostTicks = 7;

struct Series {
  std::string title;
  std::vector<PerfRecord> records;
};

bool same_series(const PerfRecord& a, const PerfRecord& b) {
  return a.asked == b.asked && a.dtype == b.dtype && a.op == b.op && a.root == b.root;
}

/// Whether all are of one datatype, op and root, so that titles need not tell them apart.
bool have_one_shape(std::span<const PerfRecord> records) {
  return std::all_of(records.begin(), records.end(), [&](const PerfRecord& record) {
    return record.dtype == records.front().dtype && record.op == records.front().op &&
           record.root == records.front().root;
  });
}

/// Text for gnuplot, to which an underscore is a subscript.
std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) result += c == '_' ? std::string("\\_") : std::string(1, c);
  return result;
}

std::string shape_of(const PerfRecord& record) {
  std::string text = escaped(to_string(record.dtype));
  if (reduces(record.collective)) text += " " + escaped(to_string(record.op));
  if (has_root(record.collective)) text += fmt::format(" root {}", record.root);
  return text;
}

std::vector<Series> series_of(std::span<const PerfRecord> records) {
  std::vector<Series> list;
  for (const PerfRecord& record : records) {
    if (record.bytes == 0) continue;  // has no place on a logarithmic axis
    auto same = std::find_if(list.begin(), list.end(),
                             [&](const Series& series) { return same_series(series.records.front(), record); });
    if (same == list.end()) same = list.insert(list.end(), Series{});
    same->records.push_back(record);
  }
  bool one_shape = have_one_shape(records);
  for (Series& series : list) {
    const PerfRecord& first = series.records.front();
    series.title = std::string(to_string(first.asked));
    if (!one_shape) series.title += " " + shape_of(first);
    auto downgraded = std::count_if(series.records.begin(), series.records.end(),
                                    [](const PerfRecord& record) { return record.downgraded(); });
    if (downgraded > 0) {
      series.title += fmt::format(" ({} of {} ran on host)", downgraded, series.records.size());
    }
    std::sort(series.records.begin(), series.records.end(),
              [](const PerfRecord& a, const PerfRecord& b) { return a.bytes < b.bytes; });
  }
  return list;
}

std::string size_label(double bytes) {
  constexpr std::string_view units = "KMGTP";
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  std::size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.0f} {}iB", bytes, units[unit]);
}

/// Ticks at powers of two, the same number of doublings apart, few enough that their labels do not touch.
std::string size_ticks(const std::vector<Series>& list) {
  double least = 0x1p60;
  double most = 1;
  for (const Series& series : list) {
    least = std::min(least, static_cast<double>(series.records.front().bytes));
    most = std::max(most, static_cast<double>(series.records.back().bytes));
  }
  int first = static_cast<int>(std::floor(std::log2(least)));
  int last = static_cast<int>(std::ceil(std::log2(most)));
  int step = std::max(1, (last - first + static_cast<int>(kMostTicks) - 2) / (static_cast<int>(kMostTicks) - 1));
  std::string ticks;
  for (int power = first; power <= last; power += step) {
    ticks +=
        fmt::format("{}'{}' {}", ticks.empty() ? "" : ", ", size_label(std::ldexp(1, power)), std::ldexp(1, power));
  }
  double low = least / 1.3;
  double high = most * 1.3;
  return fmt::format("set xtics ({})\nset xrange [{}:{}]\n", ticks, low, high);
}

std::string data_blocks(const std::vector<Series>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += fmt::format("$series{} << EOD\n", i);
    for (const PerfRecord& record : list[i].records) {
      text += fmt::format("{} {} {} {} {} {}\n", record.bytes, record.time_us.median, record.time_us.min,
                          record.time_us.p99, record.busbw_gbs(), record.wire_tx_bytes);
    }
    text += "EOD\n";
  }
  return text;
}

/// One line with points for each series, of the given gnuplot columns.
std::string lines(const std::vector<Series>& list, std::string_view columns) {
  std::string text = "plot ";
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += fmt::format("{}$series{} using {} with linespoints lw 2 pt {} ps 0.7 lc rgb '{}' title '{}'",
                        i == 0 ? "" : ", \\\n  ", i, columns, kMarks[i % kMarks.size()], kColours[i % kColours.size()],
                        list[i].title);
  }
  return text;
}

std::string spreads(const std::vector<Series>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += fmt::format(
        ", \\\n  $series{} using 1:3:4 with filledcurves fs transparent solid 0.18 noborder lc rgb '{}' notitle", i,
        kColours[i % kColours.size()]);
  }
  return text;
}

std::string wire_panel(const std::vector<Series>& list) {
  bool any = false;
  for (const Series& series : list) {
    for (const PerfRecord& record : series.records) any |= record.wire_tx_bytes > 0;
  }
  std::string text = "set title 'Bytes sent by the busiest node, per call'\nset ylabel 'bytes sent'\n";
  if (!any) {
    return text +
           "set label 1 'nothing crossed the network' at graph 0.5,0.5 center\nset yrange [0:1]\n"
           "unset ytics\nplot 1/0 notitle\n";
  }
  // A zero has no logarithm: such a point is left out.
  return text + "set logscale y\nset format y '10^{%T}'\n" + lines(list, "1:($6>0?$6:1/0)") +
         ", \\\n  x with lines dt 2 lw 1.5 lc rgb '#808080' title 'message size'\n";
}

std::string title_of(std::span<const PerfRecord> records) {
  const PerfRecord& first = records.front();
  return fmt::format("{}{} over {} rank{} on {} node{}", escaped(to_string(first.collective)),
                     have_one_shape(records) ? fmt::format(", {},", shape_of(first)) : "", first.nranks,
                     first.nranks == 1 ? "" : "s", first.nnodes, first.nnodes == 1 ? "" : "s");
}

}  // namespace

std::string plot_script(std::span<const PerfRecord> records) {
  std::vector<Series> list = series_of(records);
  std::string text = data_blocks(list);
  text += "set terminal svg size 1500,560 enhanced font 'DejaVu Sans,13' background '#ffffff'\n";
  text += fmt::format(
      "set multiplot layout 1,3 title '{}' font 'DejaVu Sans,17' margins 0.065,0.985,0.20,0.83 spacing 0.085\n",
      title_of(records));
  if (list.empty())
    return text +
           "set label 1 'no sizes above zero were measured' at graph 0.5,0.5 center\nplot [0:1][0:1] 1/0 "
           "notitle\nunset multiplot\n";
  text += "set logscale x 2\n" + size_ticks(list);
  text += "set xlabel 'message size' offset 0,-1\nset xtics rotate by -35 nomirror\nset ytics nomirror\n";
  text += "set border 3 lc rgb '#606060'\nset grid lc rgb '#d8d8d8'\nset key top left Left reverse samplen 2 opaque\n";
  text += "set logscale y\nset format y '%g'\n";
  text += "set title 'Time of a call: median, shaded from min to p99'\nset ylabel 'time (us)'\n";
  text += lines(list, "1:2") + spreads(list) + "\n";
  text += "unset logscale y\nset yrange [0:*]\n";
  text += "set title 'Bus bandwidth'\nset ylabel 'busbw (GB/s)'\n";
  text += lines(list, "1:5") + "\n";
  text += "set yrange [*:*]\n" + wire_panel(list);
  return text + "unset multiplot\n";
}

Status check_gnuplot() {
  if (find_program("gnuplot").empty()) {
    return unavailable(
        "--plot needs gnuplot, which is not in PATH: install it (Debian: gnuplot-nox) or leave --plot out");
  }
  return ok_status();
}

Status write_plot(const std::string& path, std::span<const PerfRecord> records) {
  FOLDCAST_ASSIGN(AtomicFile file, AtomicFile::create(path));
  if (Status drawn = run_gnuplot(plot_script(records), file.descriptor()); !drawn.ok()) {
    return drawn.with_context(fmt::format("--plot {}", path));
  }
  return file.commit();
}

}  // namespace foldcast::tools
