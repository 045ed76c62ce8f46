#pragma once

#include <cstdint>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast {

/// What a group engine can do. Data, intersected over the group when it is made; planner and selector read it and never
/// call a provider.
struct GroupCaps {
  std::uint32_t dtypes = 0;          ///< bit per Datatype
  std::uint32_t ops = 0;             ///< bit per ReduceOp
  std::uint64_t fragment_bytes = 0;  ///< payload of one slot
  std::uint32_t slots = 0;           ///< fragments in flight per group
  std::uint32_t depth = 0;           ///< levels of reduction between a member and the root
  bool exclusive = false;            ///< nobody else is served at the same time
  bool deterministic = false;        ///< same bits from run to run

  static constexpr std::uint32_t kAllDtypes = (1u << kDatatypeCount) - 1;
  static constexpr std::uint32_t kAllOps = (1u << kReduceOpCount) - 1;
  bool supports(Datatype dtype, ReduceOp op) const {
    if (!is_defined(dtype, op)) return false;
    return (dtypes >> static_cast<unsigned>(dtype) & 1) != 0 && (ops >> static_cast<unsigned>(op) & 1) != 0;
  }
};

/// What all of the group can do.
constexpr GroupCaps intersect(const GroupCaps& a, const GroupCaps& b) {
  GroupCaps both;
  both.dtypes = a.dtypes & b.dtypes;
  both.ops = a.ops & b.ops;
  both.fragment_bytes = a.fragment_bytes < b.fragment_bytes ? a.fragment_bytes : b.fragment_bytes;
  both.slots = a.slots < b.slots ? a.slots : b.slots;
  both.depth = a.depth > b.depth ? a.depth : b.depth;
  both.exclusive = a.exclusive || b.exclusive;
  both.deterministic = a.deterministic && b.deterministic;
  return both;
}

}  // namespace foldcast
