#include "offload/protocol/data.h"

namespace foldcast::offload {

std::string describe(const Signature& wire) {
  const std::string call = " (call " + std::to_string(sequence_of(wire)) + ")";
  if (wire.kind != Collective::kAllReduce) return std::string(to_string(wire.kind)) + call;
  return std::string(to_string(wire.kind)) + " of " + std::to_string(wire.count) + " " +
         std::string(to_string(wire.dtype)) + ", " + std::string(to_string(wire.op)) + call;
}

std::string malformed(const Signature& wire, std::uint64_t bytes, std::uint64_t fragment) {
  if (wire.kind != Collective::kAllReduce && wire.kind != Collective::kBarrier) {
    return "collective kind " + std::to_string(static_cast<int>(wire.kind));
  }
  if (!is_valid(wire.dtype)) return "datatype " + std::to_string(static_cast<int>(wire.dtype));
  if (!is_valid(wire.op)) return "operation " + std::to_string(static_cast<int>(wire.op));
  if (!is_defined(wire.dtype, wire.op)) {
    return "operation " + std::string(to_string(wire.op)) + " of " + std::string(to_string(wire.dtype));
  }
  if (bytes > fragment) {
    return std::to_string(bytes) + " bytes in a fragment of at most " + std::to_string(fragment);
  }
  if (bytes % size_of(wire.dtype) != 0) {
    return std::to_string(bytes) + " bytes, not whole elements of " + std::string(to_string(wire.dtype));
  }
  return {};
}

}  // namespace foldcast::offload
