#pragma once

#include <memory>

#include "offload/provider.h"
#include "transports/transport.h"

namespace foldcast::offload {

using transports::TransportFactory;

/// Reduction by our aggregators (foldcastd). The groups of one job share one transport, made at the first join; they
/// keep what they need, so the provider may go before them. One thread calls the provider and all its groups; leases
/// are kept by a thread of the provider's own. A group id is used once per job: a group joined anew takes a new one.
std::unique_ptr<OffloadProvider> make_aggregator_provider(TransportFactory make_transport);

}  // namespace foldcast::offload
