#pragma once

#include <sys/types.h>

#include <cstdint>

namespace foldcast::tools {

/// Whether something listens on that TCP port in the network namespace of process `pid`.
bool is_listening(pid_t pid, std::uint16_t port);

}  // namespace foldcast::tools
