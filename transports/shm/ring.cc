#include "transports/shm/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace foldcast::transports {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::uint64_t kCell = sizeof(Record);
/// What the reader keeps to itself: the writer asks when it is short of room, so there is no hurry.
constexpr std::uint64_t kReleaseEvery = RingMemory::kBytes / 4;

Record& record_at(RingMemory& memory, std::uint64_t position) {
  return *reinterpret_cast<Record*>(memory.records + position % RingMemory::kBytes);
}

}  // namespace

void RingUnmap::operator()(RingMemory* memory) const { ::munmap(memory, sizeof(RingMemory)); }

Result<UniqueFd> allocate_ring() {
  UniqueFd memfd(::memfd_create("foldcast-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd) return system_error("memfd_create for messages within the node", errno);
  int failed = 0;
  do {
    failed = ::posix_fallocate(memfd.get(), 0, sizeof(RingMemory));
  } while (failed == EINTR);
  if (failed != 0) {
    return resource_exhausted(std::string("no shared memory for messages within the node: ") + std::strerror(failed));
  }
  if (::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) return system_error("sealing a ring's memory", errno);
  return memfd;
}

Result<MappedRing> map_ring(int memfd) {
  struct stat status {};
  if (::fstat(memfd, &status) != 0) return system_error("fstat of a ring's memory", errno);
  const int seals = ::fcntl(memfd, F_GET_SEALS);
  if (status.st_size != sizeof(RingMemory) || seals < 0 || (seals & kSeals) != kSeals) {
    return invalid_argument("a ring of " + std::to_string(status.st_size) + " bytes, sealed " + std::to_string(seals) +
                            ", came where one of " + std::to_string(sizeof(RingMemory)) +
                            " was expected; run the same Foldcast on all ranks");
  }
  void* base = ::mmap(nullptr, sizeof(RingMemory), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (base == MAP_FAILED) {
    return resource_exhausted(std::string("cannot map memory for messages within the node: ") + std::strerror(errno));
  }
  return MappedRing(static_cast<RingMemory*>(base));
}

Record* RingWriter::reserve(RingMemory& memory, std::uint64_t payload_bytes) {
  const std::uint64_t bytes = (offsetof(Record, payload) + payload_bytes + kCell - 1) / kCell * kCell;
  const std::uint64_t to_end = RingMemory::kBytes - written_ % RingMemory::kBytes;
  const std::uint64_t skipped = bytes > to_end ? to_end : 0;
  const auto has_room = [&] { return written_ + skipped + bytes + kCell - consumed_ <= RingMemory::kBytes; };
  if (!has_room()) {
    consumed_ = memory.consumed.load(std::memory_order_acquire);
    if (!has_room()) return nullptr;
  }
  if (skipped > 0) {
    record_at(memory, 0).cells.store(0, std::memory_order_relaxed);
    Record& skip = record_at(memory, written_);
    skip.kind = RecordKind::kSkip;
    skip.cells.store(static_cast<std::uint32_t>(skipped / kCell), std::memory_order_release);
    written_ += skipped;
  }
  reserved_ = static_cast<std::uint32_t>(bytes / kCell);
  return &record_at(memory, written_);
}

void RingWriter::publish(RingMemory& memory) {
  const std::uint64_t next = written_ + reserved_ * kCell;
  record_at(memory, next).cells.store(0, std::memory_order_relaxed);
  record_at(memory, written_).cells.store(reserved_, std::memory_order_release);
  written_ = next;
}

const Record* RingReader::front(RingMemory& memory, bool& broken) {
  for (;;) {
    const Record& record = record_at(memory, read_);
    cells_ = record.cells.load(std::memory_order_acquire);
    if (cells_ == 0) return nullptr;
    const std::uint64_t to_end = RingMemory::kBytes - read_ % RingMemory::kBytes;
    if (cells_ * kCell > to_end) {
      broken = true;
      return nullptr;
    }
    if (record.kind != RecordKind::kSkip) return &record;
    pop(memory);
  }
}

void RingReader::pop(RingMemory& memory) {
  read_ += cells_ * kCell;
  if (read_ - released_ >= kReleaseEvery) release(memory);
}

void RingReader::release(RingMemory& memory) {
  if (read_ == released_) return;
  released_ = read_;
  memory.consumed.store(read_, std::memory_order_release);
}

}  // namespace foldcast::transports
