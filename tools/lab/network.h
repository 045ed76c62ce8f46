#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "core/base/deadline.h"
#include "core/base/status.h"
#include "tools/lab/process.h"
#include "tools/lab/spec.h"

namespace foldcast::tools {

/// Puts the calling process into a user namespace of its own, as its root, unless it may make namespaces as it is.
/// True when it did. An error says what the kernel refuses.
Result<bool> gain_namespace_rights();

/// Forks a process that makes network, host name and mount namespaces for `name` and then only holds them, until it is
/// killed or its parent dies. Blocks until they are made. In the mount namespace /sys shows the new network.
Result<pid_t> fork_holder(const std::string& name);

/// Joins the holders of `layout` (by host name) with shaped links, bridges, addresses and static neighbour entries.
/// Must be called in the user namespace that owns them; runs `ip`, `bridge` and `tc`.
Status build_network(const LabSpec& spec, const std::map<std::string, pid_t>& holders, Deadline deadline);

}  // namespace foldcast::tools
