#include "transports/shm/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace foldcast::transports {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<UniqueFd> make_sealed_memory(const char* name, std::uint64_t bytes, const std::string& what) {
  UniqueFd memfd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd) return system_error("memfd_create for " + what, errno);
  if (::ftruncate(memfd.get(), static_cast<off_t>(bytes)) != 0) {
    return resource_exhausted(what + ": ftruncate failed: " + std::strerror(errno));
  }
  if (::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) return system_error("sealing " + what, errno);
  return memfd;
}

Result<void*> map_sealed_memory(int memfd, std::uint64_t bytes, const std::string& what) {
  struct stat status {};
  if (::fstat(memfd, &status) != 0) return system_error("fstat of " + what, errno);
  const int seals = ::fcntl(memfd, F_GET_SEALS);
  if (static_cast<std::uint64_t>(status.st_size) != bytes || seals < 0 || (seals & kSeals) != kSeals) {
    return invalid_argument(what + " came with " + std::to_string(status.st_size) + " bytes, sealed " +
                            std::to_string(seals) + ", where " + std::to_string(bytes) +
                            " were agreed; run the same Foldcast on all ranks");
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (base == MAP_FAILED) return resource_exhausted("mapping " + what + " failed: " + std::strerror(errno));
  return base;
}

int populate_sealed_memory(int memfd, std::uint64_t offset, std::uint64_t bytes) {
  int failed = 0;
  do {
    failed = ::posix_fallocate(memfd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (failed == EINTR);
  return failed;
}

}  // namespace foldcast::transports
