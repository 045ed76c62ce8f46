#pragma once

#include <string_view>

#include "core/base/status.h"

namespace foldcast::tools {

/// Runs it over `script` with its standard output on `output`. Blocks at most 30 s, then kills it (kTimeout). Its first
/// line of complaint, if it makes one, is the error.
Status run_gnuplot(std::string_view script, int output);

}  // namespace foldcast::tools
