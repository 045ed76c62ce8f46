#pragma once

#include <spdlog/logger.h>

#include <string_view>

namespace foldcast {

/// The process's logger: to stderr, "foldcast[rank 3 node3] warn: ...". Level from FOLDCAST_LOG_LEVEL
/// (default warn), then from Config. Thread-safe.
spdlog::logger& log();

/// Called once the rank is known; before that lines carry no rank.
void set_log_identity(std::string_view identity);

}  // namespace foldcast
