#include "transports/shm/cross_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

namespace foldcast::transports {
namespace {

/// That a process of this number has it there tells it from one of another pid namespace.
std::uint64_t& probe_number() {
  static std::uint64_t number = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
  return number;
}

using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

Status copy(Copy call, const ProcessMemory& memory, std::byte* here, std::byte* there, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes;) {
    const iovec local{here + done, bytes - done};
    const iovec remote{there + done, bytes - done};
    const ssize_t moved = call(memory.process, &local, 1, &remote, 1, 0);
    if (moved > 0) {
      done += static_cast<std::uint64_t>(moved);
      continue;
    }
    if (moved < 0 && errno == EINTR) continue;
    const std::string process = "process " + std::to_string(memory.process);
    if (moved < 0 && errno == ESRCH) return peer_failed(process + " is gone");
    return internal_error("the kernel does not copy between here and the memory of " + process + ": " +
                          (moved < 0 ? std::strerror(errno) : "no bytes moved") +
                          "; check that the buffers given are as large as the counts say");
  }
  return ok_status();
}

}  // namespace

ProcessMemory own_memory() {
  return {static_cast<std::int32_t>(::getpid()), reinterpret_cast<std::uint64_t>(&probe_number()), probe_number()};
}

bool reaches(const ProcessMemory& memory) {
  std::uint64_t found = 0;
  const auto* probe = reinterpret_cast<const std::byte*>(memory.probe);
  return read_memory(memory, probe, reinterpret_cast<std::byte*>(&found), sizeof found).ok() && found == memory.number;
}

Status read_memory(const ProcessMemory& memory, const std::byte* source, std::byte* target, std::uint64_t bytes) {
  return copy(::process_vm_readv, memory, target, const_cast<std::byte*>(source), bytes);
}

Status write_memory(const ProcessMemory& memory, const std::byte* source, std::byte* target, std::uint64_t bytes) {
  return copy(::process_vm_writev, memory, const_cast<std::byte*>(source), target, bytes);
}

}  // namespace foldcast::transports
