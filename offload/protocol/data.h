#pragma once

#include <cstdint>
#include <string>

#include "core/base/engine.h"

namespace foldcast::offload {

/// The data plane's half of the protocol: which transport message is which contribution or result.
/// `index` numbers the fragments of a group from 0 on, over all its calls.
enum class Direction : std::uint64_t { kUp = 0, kDown = 1 };

struct Lane {
  std::uint32_t group = 0;
  std::uint32_t incarnation = 1;

  MessageKey key(Direction direction, std::uint64_t index) const {
    return {group, incarnation, index, static_cast<std::uint64_t>(direction)};
  }
};

/// An aggregator posts its receives before it knows which call they will be part of, so the call's number cannot be in
/// the key. It travels as the signature's root, which an all-reduce does not have.
inline Signature on_wire(Signature call, std::uint64_t sequence) {
  call.root = static_cast<std::int32_t>(static_cast<std::uint32_t>(sequence));
  return call;
}
inline std::uint32_t sequence_of(const Signature& wire) { return static_cast<std::uint32_t>(wire.root); }

/// "all_reduce of 10 float32, sum (call 7)".
std::string describe(const Signature& wire);

/// Why `wire` with `bytes` of payload cannot be a fragment of at most `fragment` bytes; empty when it can.
std::string malformed(const Signature& wire, std::uint64_t bytes, std::uint64_t fragment);

}  // namespace foldcast::offload
