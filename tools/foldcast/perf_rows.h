#pragma once

#include <stdexcept>
#include <vector>

#include "tools/foldcast/perf_measure.h"
#include "tools/foldcast/perf_options.h"

namespace foldcast::tools {

/// A mistake of the user's that shows only once the job is known.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The rows of the table, each with a case for every path: by datatype, op, root and size. Throws UsageError for a root
/// that `ranks` ranks do not have.
std::vector<std::vector<PerfCase>> rows_of(const PerfOptions& options, int ranks);

}  // namespace foldcast::tools
