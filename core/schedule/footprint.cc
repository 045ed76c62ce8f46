#include "core/schedule/footprint.h"

namespace foldcast::schedule {

bool is_valid(const Chunk& chunk) {
  if (chunk.of == 0 || chunk.span == 0) return false;
  if (chunk.space != Space::kScratch && chunk.index >= chunk.of) return false;
  return std::uint64_t{chunk.index % chunk.of} + chunk.span <= chunk.of;
}

Region region_of(const Chunk& chunk) {
  Region region;
  if (chunk.space == Space::kScratch) region.memory = 1 + chunk.index / chunk.of;
  const std::uint64_t within = chunk.index % chunk.of;
  region.first = {within, chunk.of};
  region.last = {within + chunk.span, chunk.of};
  return region;
}

bool overlap(const Region& a, const Region& b) { return a.memory == b.memory && a.first < b.last && b.first < a.last; }

bool covers(const Region& outer, const Region& inner) {
  return outer.memory == inner.memory && outer.first <= inner.first && inner.last <= outer.last;
}

bool same_part(const Chunk& a, const Chunk& b) {
  const Region x = region_of(a);
  const Region y = region_of(b);
  return x.first == y.first && x.last == y.last;
}

bool same_part_of_block(const Chunk& a, const Chunk& b, std::uint32_t blocks) {
  // Both lengths, and the offsets up to a multiple of 1/blocks, on the common denominator a.of * b.of * blocks.
  const auto scaled = [&](std::uint64_t parts, const Chunk& other) {
    return static_cast<unsigned __int128>(parts) * other.of * blocks;
  };
  if (scaled(a.span, b) != scaled(b.span, a)) return false;
  const unsigned __int128 first = scaled(a.index % a.of, b);
  const unsigned __int128 second = scaled(b.index % b.of, a);
  const unsigned __int128 block = static_cast<unsigned __int128>(a.of) * b.of;
  return (first > second ? first - second : second - first) % block == 0;
}

Footprint footprint_of(const Step& step, const MemoryRules& rules) {
  Footprint footprint;
  const auto region = [&](const Chunk& chunk) {
    Region named = region_of(chunk);
    if (rules.apart && chunk.space == Space::kOutput) named.memory = Region::kApart;
    return named;
  };
  const auto read = [&](const Chunk& chunk) { footprint.reads[footprint.read_count++] = region(chunk); };
  const auto write = [&](const Chunk& chunk) { footprint.writes[footprint.write_count++] = region(chunk); };
  switch (step.kind) {
    case StepKind::kSend:
      read(step.a);
      if (rules.rounds && step.a.space != Space::kInput) write(step.a);
      break;
    case StepKind::kRecv:
      write(step.target);
      break;
    case StepKind::kReduce:
      read(step.a);
      read(step.b);
      write(step.target);
      break;
    case StepKind::kCopy:
      read(step.a);
      write(step.target);
      break;
    case StepKind::kGroup:
      if (step.verb == Verb::kBarrier) {
        footprint.fence = true;
      } else {
        read(step.a);
        write(step.target);
      }
      break;
  }
  return footprint;
}

}  // namespace foldcast::schedule
