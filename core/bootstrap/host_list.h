#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast::bootstrap {

/// "node[0-2,7]" -> node0 node1 node2 node7, as Slurm writes host lists; leading zeros are kept. At most 2^20 hosts.
Result<std::vector<std::string>> expand_host_list(std::string_view text);

}  // namespace foldcast::bootstrap
