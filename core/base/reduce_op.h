#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foldcast {

/// Reductions (docs/design.md, section 9 for their numbers). Wire format and C ABI: never renumber.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMin = 2,
  kMax = 3,
  kAvg = 4,  ///< summed as kSum everywhere, divided by the number of ranks once, after the whole sum
};
inline constexpr std::size_t kReduceOpCount = 5;

constexpr bool is_valid(ReduceOp op) { return static_cast<std::size_t>(op) < kReduceOpCount; }
/// The op that is applied between two contributions: kAvg sums.
constexpr ReduceOp pairwise(ReduceOp op) { return op == ReduceOp::kAvg ? ReduceOp::kSum : op; }

std::string_view to_string(ReduceOp op);
std::optional<ReduceOp> reduce_op_from_string(std::string_view name);

}  // namespace foldcast
