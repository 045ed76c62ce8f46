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

Footprint footprint_of(const Step& step) {
  Footprint footprint;
  auto read = [&](const Chunk& chunk) { footprint.reads[footprint.read_count++] = region_of(chunk); };
  auto write = [&](const Chunk& chunk) { footprint.writes[footprint.write_count++] = region_of(chunk); };
  switch (step.kind) {
    case StepKind::kSend:
      read(step.a);
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
