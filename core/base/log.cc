#include "core/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string>

namespace foldcast {

spdlog::logger& log() {
  // Leaked on purpose: destructors of other statics may still log.
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("foldcast", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("foldcast %l: %v");
    // Programs without a Config, as foldcastd, have the variable all the same; empty means unset, as everywhere.
    const char* level = std::getenv("FOLDCAST_LOG_LEVEL");
    made->set_level(level != nullptr && *level != '\0' ? spdlog::level::from_str(level) : spdlog::level::warn);
    return made;
  }();
  return *logger;
}

void set_log_identity(std::string_view identity) {
  log().set_pattern("foldcast[" + std::string(identity) + "] %l: %v");
}

}  // namespace foldcast
