#pragma once

#include <cstdio>

#include "tools/foldcast/perf_options.h"

namespace foldcast::tools {

/// Joins the job, measures everything `options` ask for and, on rank 0, prints the table to `out` as it grows and
/// writes what -J and --plot ask for. Returns the exit code: 0, or after one line on stderr 1 (a result was wrong, a
/// call failed) or 2 (a plan that does not exist). After a failed call it returns at once: the other ranks cannot be
/// waited for. Collective; throws nothing.
int run_perf(const PerfOptions& options, std::FILE* out);

}  // namespace foldcast::tools
