#pragma once

#include <compare>
#include <cstdint>

#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// Where a fragment is cut, as an exact fraction of it. Chunks that are cut into different numbers of parts must
/// compare exactly: equal fractions are the same element for every count, and a smaller one never lies behind a larger
/// one.
struct Cut {
  std::uint64_t part = 0;
  std::uint64_t of = 1;
  friend constexpr std::strong_ordering operator<=>(const Cut& a, const Cut& b) {
    return a.part * b.of <=> b.part * a.of;
  }
  friend constexpr bool operator==(const Cut& a, const Cut& b) { return a.part * b.of == b.part * a.of; }
};

/// The memory that a chunk names. Input and output are one memory, because a call may be in place, unless the
/// schedule's rules say otherwise.
struct Region {
  static constexpr std::uint32_t kData = 0;     ///< input and output; scratch unit u is memory 1 + u
  static constexpr std::uint32_t kApart = ~0u;  ///< the output where it is other memory than the input
  std::uint32_t memory = kData;
  Cut first, last;
};

/// False for a chunk of no parts, one that runs over the end of its unit, or data beyond the first unit.
bool is_valid(const Chunk& chunk);
/// Of a valid chunk.
Region region_of(const Chunk& chunk);
bool overlap(const Region& a, const Region& b);
/// `outer` has all of `inner`.
bool covers(const Region& outer, const Region& inner);
/// True when both name the same fraction of a fragment, whatever the memory. Only such chunks have equally many
/// elements for every count, because cuts are rounded.
bool same_part(const Chunk& a, const Chunk& b);

/// The same, where a whole is `blocks` equal blocks, of the same part of perhaps another block.
bool same_part_of_block(const Chunk& a, const Chunk& b, std::uint32_t blocks);

/// What one step reads and writes.
struct Footprint {
  Region reads[2];
  Region writes[1];
  std::uint8_t read_count = 0;
  std::uint8_t write_count = 0;
  bool fence = false;  ///< a barrier: everything before it ends first, everything after it waits
};

/// Of group steps it is the largest any member may have (a reduce_scatter writes the whole target), because a schedule
/// does not know its rank's place in the group.
Footprint footprint_of(const Step& step, const MemoryRules& rules);

}  // namespace foldcast::schedule
