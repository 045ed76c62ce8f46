#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

namespace foldcast::transports {

/// Another process's memory, which the kernel copies from and to without either side's help (cross-memory attach,
/// process_vm_readv(2)). It allows that to processes of one user where neither Yama (kernel.yama.ptrace_scope), a
/// container's seccomp profile nor another pid namespace is in the way: reaches() finds out. A plain value, to be
/// handed to the others.
struct ProcessMemory {
  std::int32_t process = 0;
  std::uint64_t probe = 0;  ///< where there is a number that no other process has there
  std::uint64_t number = 0;
};

/// This process's.
ProcessMemory own_memory();

/// Whether this process may read that memory, and it is the one meant.
bool reaches(const ProcessMemory& memory);

/// Copies `bytes` from `source` in that memory. kPeerFailed when the process is gone; kInternal with the kernel's words
/// for all else. `target` may have been written in part then.
Status read_memory(const ProcessMemory& memory, const std::byte* source, std::byte* target, std::uint64_t bytes);
/// Copies `bytes` to `target` in that memory; as read_memory().
Status write_memory(const ProcessMemory& memory, const std::byte* source, std::byte* target, std::uint64_t bytes);

}  // namespace foldcast::transports
