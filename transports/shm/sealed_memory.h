#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::transports {

/// Memory that processes share by passing a descriptor (memfd): it has no name in a file system, and is sealed so that
/// nobody can shrink it under another's feet. Its pages come when they are touched or populated.
/// `what` is how errors call it.
Result<UniqueFd> make_sealed_memory(const char* name, std::uint64_t bytes, const std::string& what);

/// Maps what make_sealed_memory() made, here or in another process; kInvalidArgument for one of another size or that
/// could still shrink. Unmap it with munmap(2).
Result<void*> map_sealed_memory(int memfd, std::uint64_t bytes, const std::string& what);

/// Allocates the pages of a part of it, so that none is missing when it is touched (a SIGBUS). An errno, 0 for success.
int populate_sealed_memory(int memfd, std::uint64_t offset, std::uint64_t bytes);

}  // namespace foldcast::transports
