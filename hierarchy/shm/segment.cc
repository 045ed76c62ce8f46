#include "hierarchy/shm/segment.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "hierarchy/node_group.h"
#include "transports/shm/sealed_memory.h"

namespace foldcast::hierarchy {
namespace {

constexpr const char* kWhat = "the node's shared segment";
constexpr std::uint64_t kMaxSlotBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxSlots = 1u << 16;
constexpr int kMaxSize = 4096;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::uint64_t members_offset(const SegmentShape& shape) { return round_up(shape.size, 64); }
std::uint64_t progress_offset(const SegmentShape& shape) {
  return members_offset(shape) + shape.size * sizeof(MemberMemory);
}
std::uint64_t slots_offset(const SegmentShape& shape) {
  return round_up(progress_offset(shape) + NodeGroup::kLanes * shape.size * sizeof(RankProgress), 4096);
}

std::uint64_t ring_bytes(const SegmentShape& shape) {
  return round_up(std::uint64_t{NodeGroup::kLanes} * shape.slots * (sizeof(PieceHeader) + shape.slot_bytes), 4096);
}

std::uint64_t read_number(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

/// What the kernel would still hand out, or "unlimited" where it does not say. Allocating more would not fail cleanly:
/// the kernel would rather kill a process.
std::uint64_t available_memory() {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    std::uint64_t kib = 0;
    if (key == "MemAvailable:" && meminfo >> kib) available = kib << 10;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string directory = "/sys/fs/cgroup" + line.substr(3);
    const std::uint64_t most = read_number(directory + "/memory.max", available);
    const std::uint64_t used = read_number(directory + "/memory.current", 0);
    if (most < available) available = most > used ? most - used : 0;
  }
  return available;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

Status no_room(const SegmentShape& shape, const std::string& why) {
  return resource_exhausted("the shared segment of " + std::to_string(shape.size) + " local ranks needs " +
                            mebibytes(shape.bytes()) + ", but " + why +
                            "; use fewer ranks on this node, smaller slots " + "or more memory");
}

}  // namespace

bool same_call(const CallId& a, const CallId& b) { return std::memcmp(&a, &b, offsetof(CallId, attached)) == 0; }

std::uint64_t SegmentShape::bytes() const { return slots_offset(*this) + size * ring_bytes(*this); }

Result<SegmentShape> SegmentShape::create(int size, std::uint64_t slot_bytes, std::uint32_t slots) {
  if (size < 1 || size > kMaxSize) {
    return invalid_argument("a node group of " + std::to_string(size) + " ranks; 1 to " + std::to_string(kMaxSize));
  }
  if (slots < 1 || slots > kMaxSlots) {
    return invalid_argument("a node group with " + std::to_string(slots) + " slots; 1 to " + std::to_string(kMaxSlots));
  }
  if (slot_bytes < 1 || slot_bytes > kMaxSlotBytes) {
    return invalid_argument("a node group with slots of " + std::to_string(slot_bytes) + " bytes; 1 to " +
                            std::to_string(kMaxSlotBytes));
  }
  SegmentShape shape;
  shape.size = static_cast<std::uint32_t>(size);
  shape.slots = std::bit_ceil(slots);
  // Every rank's shard of a piece has a cache line at least.
  shape.slot_bytes = std::max(round_up(slot_bytes, 64), std::uint64_t{64} * shape.size);
  return shape;
}

Result<UniqueFd> Segment::allocate(const SegmentShape& shape) {
  const std::uint64_t bytes = shape.bytes();
  if (const std::uint64_t available = available_memory(); bytes > available) {
    return no_room(shape, "only " + mebibytes(available) + " are available");
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    return no_room(shape, "the file size limit (ulimit -f) is " + mebibytes(limit.rlim_cur));
  }
  return transports::make_sealed_memory("foldcast-node", bytes, kWhat);
}

Result<std::shared_ptr<Segment>> Segment::map(int memfd, const SegmentShape& shape) {
  FOLDCAST_ASSIGN(void* const base, transports::map_sealed_memory(memfd, shape.bytes(), kWhat));
  // Only where the system gives shared memory huge pages to those who ask.
  (void)::madvise(base, shape.bytes(), MADV_HUGEPAGE);
  return std::shared_ptr<Segment>(new Segment(static_cast<std::byte*>(base), shape));
}

Status Segment::claim(int memfd, std::uint32_t rank) const {
  const std::uint64_t begin = rank == 0 ? 0 : slots_offset_ + rank * ring_bytes_;
  const std::uint64_t bytes = slots_offset_ + (rank + 1) * ring_bytes_ - begin;
  // Populating can give huge pages, which allocating in the file cannot.
  if (::madvise(base_ + begin, bytes, MADV_POPULATE_WRITE) != 0) {
    const int failed = transports::populate_sealed_memory(memfd, begin, bytes);
    if (failed != 0) return no_room(shape_, std::string("the kernel has less: ") + std::strerror(failed));
  }
  // Rank 0 has claimed the page this is in before anybody else can.
  member(rank).memory = transports::own_memory();
  return ok_status();
}

void Segment::prefault() const {
  if (::madvise(base_, shape_.bytes(), MADV_POPULATE_WRITE) == 0) return;
  for (std::uint64_t offset = 0; offset < shape_.bytes(); offset += 4096) {
    // Adds nothing, but writes: a page that was only read would fault again. Others may be at work already.
    reinterpret_cast<std::atomic<std::uint8_t>*>(base_ + offset)->fetch_or(0, std::memory_order_relaxed);
  }
}

Segment::Segment(std::byte* base, const SegmentShape& shape)
    : base_(base),
      shape_(shape),
      members_offset_(members_offset(shape)),
      progress_offset_(progress_offset(shape)),
      slots_offset_(slots_offset(shape)),
      ring_bytes_(ring_bytes(shape)) {}

Segment::~Segment() { ::munmap(base_, shape_.bytes()); }

}  // namespace foldcast::hierarchy
