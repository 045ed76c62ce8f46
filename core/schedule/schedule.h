#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/step.h"

namespace foldcast::schedule {

/// What a schedule takes for granted about memory.
struct MemoryRules {
  /// Input and output are different memory: never to be run in place.
  bool apart = false;
  /// Messages travel in a format of less precision; what is sent from the output or scratch is rounded there as well.
  bool rounds = false;
};

/// All actions of one rank for one fragment of one collective, ordered by dependences: a directed acyclic graph in
/// topological order (a step depends on earlier ones only). Has no pointers, counts or datatypes, so it is reusable and
/// comparable. Made by Builder.
struct Schedule {
  std::vector<Step> steps;
  std::vector<std::uint32_t> dependences;       ///< per step: how many steps must end before it may start
  std::vector<std::uint32_t> dependants_begin;  ///< CSR: steps.size() + 1 offsets into `dependants`
  std::vector<std::uint32_t> dependants;        ///< CSR: the steps that wait for this one
  std::uint32_t scratch_units = 0;              ///< scratch memory, in fragments
  MemoryRules memory;
};

/// Which kind of engine serves a group of the schedule.
enum class GroupKind : std::uint8_t { kNode, kTree };

/// An engine group as the ranks of the communicator see it.
struct Group {
  GroupKind kind = GroupKind::kNode;
  std::string name;                   ///< "node 2", "tree 0"
  std::vector<std::int32_t> members;  ///< ranks of the communicator, in group order
  friend bool operator==(const Group&, const Group&) = default;
};

/// The schedules of all ranks of a communicator for one collective: what `verify` proves, `estimate` prices, the
/// simulator plays and `explain` prints. At run time a rank builds only its own part.
struct Program {
  std::string name;  ///< "ring", "node+halving_doubling", "node+tree"
  std::vector<Schedule> ranks;
  std::vector<Group> groups;
};

}  // namespace foldcast::schedule
