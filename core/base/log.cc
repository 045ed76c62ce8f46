#include "core/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

namespace foldcast {

spdlog::logger& log() {
  // Leaked on purpose: destructors of other statics may still log.
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("foldcast", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("foldcast %l: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

void set_log_identity(std::string_view identity) {
  log().set_pattern("foldcast[" + std::string(identity) + "] %l: %v");
}

}  // namespace foldcast
