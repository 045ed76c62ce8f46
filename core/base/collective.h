#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast {

/// What a call asks for. Wire format: never renumber.
enum class Collective : std::uint8_t {
  kNone = 0,
  kAllReduce = 1,
  kBarrier = 2,
  kReduce = 3,
  kBroadcast = 4,
  kReduceScatter = 5,
  kAllGather = 6,
  kAllToAll = 7,
  kGather = 8,
  kScatter = 9,
  kSendRecv = 10,  ///< between two ranks
  // With a count for each rank, or pair of ranks.
  kReduceScatterV = 11,
  kAllGatherV = 12,
  kAllToAllV = 13,
  kGatherV = 14,
  kScatterV = 15,
};
inline constexpr std::size_t kCollectiveCount = 16;

/// How float32 travels between nodes. Wire format: never renumber.
enum class WireFormat : std::uint8_t { kExact = 0, kBfloat16 = 1, kFloat16 = 2, kFloat8 = 3 };
inline constexpr std::size_t kWireFormatCount = 4;
std::string_view to_string(WireFormat format);
std::optional<WireFormat> wire_format_from_string(std::string_view name);

std::string_view to_string(Collective kind);
std::optional<Collective> collective_from_string(std::string_view name);

constexpr bool has_variable_counts(Collective kind) { return kind >= Collective::kReduceScatterV; }
/// The collective whose schedules a kind runs: a barrier is an all_reduce of one element, and counts do not matter.
constexpr Collective scheduled_as(Collective kind) {
  switch (kind) {
    case Collective::kBarrier:
      return Collective::kAllReduce;
    case Collective::kReduceScatterV:
      return Collective::kReduceScatter;
    case Collective::kAllGatherV:
      return Collective::kAllGather;
    case Collective::kAllToAllV:
      return Collective::kAllToAll;
    case Collective::kGatherV:
      return Collective::kGather;
    case Collective::kScatterV:
      return Collective::kScatter;
    default:
      return kind;
  }
}
constexpr bool reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduceScatterV;
}
constexpr bool has_root(Collective kind) {
  return kind == Collective::kReduce || kind == Collective::kBroadcast || kind == Collective::kGather ||
         kind == Collective::kScatter || kind == Collective::kGatherV || kind == Collective::kScatterV;
}
/// Whether one of the buffers has a block for each rank.
constexpr bool has_blocks(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllGather || kind == Collective::kAllToAll ||
         kind == Collective::kGather || kind == Collective::kScatter || kind >= Collective::kReduceScatterV;
}

/// What must be equal on all ranks of one call. It travels with every message, so that a difference is reported, naming
/// both sides, before a byte is written to a buffer. A receiver that takes any signature says so with `any()`.
struct Signature {
  Collective kind = Collective::kNone;
  Datatype dtype = Datatype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  WireFormat wire = WireFormat::kExact;
  std::int32_t root = 0;
  /// The caller's count: elements of the buffer or, of collectives with a block for each rank, of a block; their sum
  /// where each rank knows all counts, 0 where it does not.
  std::uint64_t count = 0;

  friend bool operator==(const Signature&, const Signature&) = default;
  static constexpr Signature any() { return {}; }
  constexpr bool is_any() const { return kind == Collective::kNone; }
};
/// "all_reduce of 100 float32, sum".
std::string to_string(const Signature& signature);
static_assert(sizeof(Signature) == 16 && std::is_trivially_copyable_v<Signature>);

}  // namespace foldcast
