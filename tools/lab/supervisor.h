#pragma once

#include <string>

#include "core/base/status.h"
#include "tools/lab/process.h"
#include "tools/lab/state.h"

namespace foldcast::tools {

/// Forks the process under which all of a lab lives and blocks until the lab is up, or did not come up: then the
/// reason. It holds the namespaces, watches the aggregators and ends on SIGTERM; with it, however it ends, everything
/// ends. It is a session of its own and inherits no descriptor. `aggregator_program` is foldcastd's path; empty: none
/// are run.
Status start_supervisor(const LabSpec& spec, const StateDirectory& directory, const std::string& aggregator_program);

}  // namespace foldcast::tools
