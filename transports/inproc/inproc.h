#pragma once

#include <memory>

#include "transports/transport.h"

namespace foldcast::transports {

/// Where the ranks of one test meet: threads of one process. Must outlive its transports.
class InprocNetwork;
std::shared_ptr<InprocNetwork> make_inproc_network();

/// A transport whose peers are other transports on the same network. Destroying it makes it a failed peer to them.
std::unique_ptr<Transport> make_inproc(std::shared_ptr<InprocNetwork> network, const TransportOptions& options = {});

}  // namespace foldcast::transports
