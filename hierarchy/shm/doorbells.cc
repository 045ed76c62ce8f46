#include "hierarchy/shm/doorbells.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace foldcast::hierarchy {

Doorbells::Doorbells(std::vector<UniqueFd> descriptors, std::uint32_t own)
    : descriptors_(std::move(descriptors)), own_(own) {}

Result<UniqueFd> Doorbells::make_one() {
  UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell) return system_error("eventfd for a node group's doorbell", errno);
  return doorbell;
}

void Doorbells::arm() {
  if (armed_++ != 0) return;
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t taken = ::read(descriptor(), &rings, sizeof rings);
}

void Doorbells::ring(std::uint32_t rank) const {
  const std::uint64_t one = 1;
  // The counter cannot overflow, and a doorbell that is already rung stays rung.
  [[maybe_unused]] const ssize_t written = ::write(descriptors_[rank].get(), &one, sizeof one);
}

}  // namespace foldcast::hierarchy
