#pragma once

#include <memory>

#include "core/api/communicator.h"

namespace foldcast::api {

/// The composition root. Collective over the job: joins it, the nodes' shared memory and (where configured, by all or
/// none) an aggregation tree, and measures the links, unless an earlier job of the same shape left its measurements.
Result<std::unique_ptr<Communicator>> create_world(Config config, const bootstrap::LaunchInfo& launch,
                                                   const transports::TransportFactories& transports);

}  // namespace foldcast::api
