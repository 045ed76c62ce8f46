#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast::tools {

/// One network interface's bytes since it was made.
struct InterfaceBytes {
  std::string name;
  std::int64_t rx = 0;
  std::int64_t tx = 0;
};

/// The text of a /proc/PID/net/dev; kUnavailable when a line of it is not as expected.
Result<std::vector<InterfaceBytes>> parse_net_dev(std::string_view text);

}  // namespace foldcast::tools
