#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/datatype.h"

namespace foldcast {

/// Reductions (docs/design.md, section 9 for their numbers). Wire format and C ABI: never renumber.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMin = 2,
  kMax = 3,
  kAvg = 4,   ///< summed as kSum everywhere, divided by the number of ranks once, after the whole sum
  kLand = 5,  ///< logical: of what is not zero; the result is 0 or 1
  kLor = 6,
  kLxor = 7,
  kBand = 8,  ///< bit by bit
  kBor = 9,
  kBxor = 10,
  kPremulSum = 11,  ///< each rank's contribution is multiplied by a number of its own first, then summed as kSum
  kFirstUser = 64,  ///< from here on: functions of the application, see kernels/user_op.h
};
/// Those that are not the application's.
inline constexpr std::size_t kReduceOpCount = 12;
inline constexpr std::size_t kMaxUserOps = 160;
/// Behind those of the application: pre-multiplied sums, each with its multiplier. They run as kPremulSum.
inline constexpr std::size_t kFirstPremulOp = static_cast<std::size_t>(ReduceOp::kFirstUser) + kMaxUserOps;
inline constexpr std::size_t kMaxPremulOps = 32;

constexpr bool is_user(ReduceOp op) {
  return op >= ReduceOp::kFirstUser && static_cast<std::size_t>(op) < kFirstPremulOp;
}
/// True for the built-in ones; whether a user's op exists is asked of its registry.
constexpr bool is_valid(ReduceOp op) { return static_cast<std::size_t>(op) < kReduceOpCount; }
/// The op that is applied between two contributions: kAvg and kPremulSum sum.
constexpr ReduceOp pairwise(ReduceOp op) {
  return op == ReduceOp::kAvg || op == ReduceOp::kPremulSum ? ReduceOp::kSum : op;
}
/// Whether a built-in op means something for the elements. Floats have no logical and bitwise ops. Of bool, sum and max
/// are lor, prod and min are land; it has no avg and no multiplier.
constexpr bool is_defined(Datatype dtype, ReduceOp op) {
  if (!is_valid(dtype) || !is_valid(op)) return false;
  if (dtype == Datatype::kBool) return op != ReduceOp::kAvg && op != ReduceOp::kPremulSum;
  return !is_floating(dtype) || op <= ReduceOp::kAvg || op == ReduceOp::kPremulSum;
}

std::string_view to_string(ReduceOp op);
std::optional<ReduceOp> reduce_op_from_string(std::string_view name);

}  // namespace foldcast
