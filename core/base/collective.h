#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast {

/// What a call asks for. Wire format: never renumber.
enum class Collective : std::uint8_t { kNone = 0, kAllReduce = 1, kBarrier = 2 };
inline constexpr std::size_t kCollectiveCount = 3;

std::string_view to_string(Collective kind);

/// What must be equal on all ranks of one call. It travels with every message, so that a difference is reported, naming
/// both sides, before a byte is written to a buffer. A receiver that takes any signature says so with `any()`.
struct Signature {
  Collective kind = Collective::kNone;
  Datatype dtype = Datatype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t reserved = 0;
  std::int32_t root = 0;
  std::uint64_t count = 0;  ///< elements of the whole call, not of one fragment

  friend bool operator==(const Signature&, const Signature&) = default;
  static constexpr Signature any() { return {}; }
  constexpr bool is_any() const { return kind == Collective::kNone; }
};
/// "all_reduce of 100 float32, sum".
std::string to_string(const Signature& signature);
static_assert(sizeof(Signature) == 16 && std::is_trivially_copyable_v<Signature>);

}  // namespace foldcast
