#pragma once

#include <span>
#include <string>

#include "tools/foldcast/perf_record.h"

namespace foldcast::tools {

/// The records as a JSON list, in the order they were measured. `path` is what ran, not what was asked for; `wrong` is
/// null when unchecked (docs/perf.md has the keys).
std::string perf_json(std::span<const PerfRecord> records);

}  // namespace foldcast::tools
