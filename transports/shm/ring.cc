#include "transports/shm/ring.h"

#include <sys/mman.h>

#include <cstring>
#include <string>

#include "transports/shm/sealed_memory.h"

namespace foldcast::transports {
namespace {

constexpr const char* kWhat = "a ring for messages within the node";
constexpr std::uint64_t kCell = sizeof(Record);
/// What the reader may keep to itself: so little that the writer has room for the largest record all the same.
constexpr std::uint64_t kReleaseEvery = RingMemory::kBytes / 4;

Record& record_at(RingMemory& memory, std::uint64_t position) {
  return *reinterpret_cast<Record*>(memory.records + position % RingMemory::kBytes);
}

}  // namespace

void RingUnmap::operator()(RingMemory* memory) const { ::munmap(memory, sizeof(RingMemory)); }

Result<UniqueFd> allocate_ring() {
  FOLDCAST_ASSIGN(UniqueFd memfd, make_sealed_memory("foldcast-ring", sizeof(RingMemory), kWhat));
  if (const int failed = populate_sealed_memory(memfd.get(), 0, sizeof(RingMemory)); failed != 0) {
    return resource_exhausted(std::string("no memory for ") + kWhat + ": " + std::strerror(failed));
  }
  return memfd;
}

Result<MappedRing> map_ring(int memfd) {
  FOLDCAST_ASSIGN(void* const base, map_sealed_memory(memfd, sizeof(RingMemory), kWhat));
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
    pop();
  }
}

void RingReader::pop() { read_ += cells_ * kCell; }

bool RingReader::owes() const { return read_ - released_ >= kReleaseEvery; }

void RingReader::release(RingMemory& memory) {
  if (read_ == released_) return;
  released_ = read_;
  memory.consumed.store(read_, std::memory_order_release);
}

}  // namespace foldcast::transports
