#pragma once

#include <span>
#include <string>

#include "core/base/status.h"
#include "tools/foldcast/perf_record.h"

namespace foldcast::tools {

/// kUnavailable when gnuplot is not to be had; names the package.
Status check_gnuplot();

/// What gnuplot is given: the data inline, then three panels over the message size: time, bus bandwidth, bytes on the
/// wire. One line a path, datatype and op. It writes to its standard output.
std::string plot_script(std::span<const PerfRecord> records);

/// Runs gnuplot and writes the SVG at `path`, whole or not at all. Blocks at most 30 s. An error has gnuplot's first
/// line.
Status write_plot(const std::string& path, std::span<const PerfRecord> records);

}  // namespace foldcast::tools
