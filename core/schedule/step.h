#pragma once

#include <cstdint>
#include <string>

#include "core/base/engine.h"

namespace foldcast::schedule {

/// Which of a call's buffers. Input and output may be the same memory (in place), so a schedule must be right both when
/// they are and when they are not.
enum class Space : std::uint8_t { kInput, kOutput, kScratch };

/// `span` consecutive parts, from `index` on, of a buffer that is cut into `of` parts. Part i of a fragment of `count`
/// elements is [i*count/of, (i+1)*count/of), rounded down, so cuts nest: part i of `of` is parts [i*k, (i+1)*k) of
/// of*k. Scratch is one fragment long per *scratch unit*: chunk {kScratch, index, of} with index >= of lies in unit
/// index / of.
struct Chunk {
  Space space = Space::kInput;
  std::uint32_t index = 0;
  std::uint32_t of = 1;
  std::uint32_t span = 1;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// Elements [first, last) of a fragment of `count` elements (for scratch: counted from the scratch buffer's start).
struct ElementRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t size() const { return last - first; }
};
constexpr std::uint64_t cut(std::uint64_t count, std::uint64_t index, std::uint64_t of) {
  // Dividing 128 bits costs more than all else in a small call.
  if (index == 0) return 0;
  if (index == of) return count;
  if (count <= UINT32_MAX && index <= UINT32_MAX) return count * index / of;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(count) * index / of);
}
constexpr ElementRange elements_of(const Chunk& chunk, std::uint64_t count) {
  std::uint64_t unit = chunk.index / chunk.of;
  std::uint64_t within = chunk.index % chunk.of;
  return {unit * count + cut(count, within, chunk.of), unit * count + cut(count, within + chunk.span, chunk.of)};
}

enum class StepKind : std::uint8_t { kSend, kRecv, kReduce, kCopy, kGroup };

/// One action of one rank.
///   send:   `a` to `peer`.                     recv:  from `peer` into `target`.
///   reduce: target = a op b, in that order.    copy:  target = a.
///   group:  `verb` on engine group `group`; a is what this rank gives, target where its result goes. Verbs with shards
///           name the *whole* that is sharded, also where a rank gives or gets a shard only: member s's is part s of
///           `owners`. Roots alone get the results of reduce and gather, and give in broadcast and scatter.
struct Step {
  StepKind kind = StepKind::kCopy;
  Verb verb = Verb::kBarrier;  ///< group
  std::uint8_t lane = 0;       ///< group: see Engine
  std::uint16_t owners = 0;    ///< group: how many members have a shard; gather, scatter, all_to_all: all
  std::uint32_t group = 0;     ///< group: index into the plan's groups
  std::int32_t peer = -1;      ///< send, recv: rank in the communicator; group: the root's index in it
  std::uint32_t channel = 0;   ///< send, recv
  std::uint32_t ordinal = 0;   ///< send, recv: how many came before with that peer and channel; the builder's
  Chunk a, b, target;
};

std::string to_string(const Chunk& chunk);
std::string to_string(const Step& step);

}  // namespace foldcast::schedule
