#pragma once

#include <memory>

#include "transports/transport.h"

namespace foldcast::transports {

struct ShmTransportOptions : TransportOptions {
  /// Copy large messages straight from one process's memory to the other's, if the system allows it.
  bool cross_memory = true;
};

/// Messages among the processes of one node and user, through a ring in shared memory from each to each that sends to
/// it. Small ones take one copy in and one out; from kMostEager bytes on they wait for their receive and go from buffer
/// to buffer, copied by both sides (cross-memory attach), or through the ring where that is not allowed.
///
/// A process listens at an abstract Unix socket for those that connect to it; the sockets bring the rings' memory, wake
/// sleepers and tell when a peer is gone. So nothing has a name in a file system and nothing is left behind.
///
/// After cancel(): a peer that was stopped in the very moment between claiming a piece and copying it, and goes on more
/// than a second later, may still write into a cancelled receive's buffer. It has been given up by then, with a log.
Result<std::unique_ptr<Transport>> make_shm(const ShmTransportOptions& options = {});

/// Larger messages are complete only when they were received.
inline constexpr std::uint64_t kMostEager = 8u << 10;

}  // namespace foldcast::transports
