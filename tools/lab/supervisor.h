#pragma once

#include <string>

#include "core/base/status.h"
#include "tools/lab/process.h"
#include "tools/lab/state.h"

namespace foldcast::tools {

/// Forks the process under which all of a lab lives and blocks until the lab is up, or did not come up: then the
/// reason. It holds the namespaces, watches the aggregators and ends on SIGTERM; with it, however it ends, everything
/// ends. It is a session of its own and inherits no descriptor but `lock` (of lock_labs), which it holds until it has
/// answered: if our caller is interrupted meanwhile, nobody else touches the state directory before it has removed it.
/// It does so whenever the lab does not come up or nobody hears that it did. `aggregator_program` is foldcastd's path;
/// empty: none are run.
Status start_supervisor(const LabSpec& spec, const StateDirectory& directory, const std::string& aggregator_program,
                        int lock);

}  // namespace foldcast::tools
