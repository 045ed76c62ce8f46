#include "kernels/wire_format.h"

#include "kernels/cpu/conversions.h"
#include "kernels/reducer.h"

namespace foldcast::kernels {
namespace {

Datatype half_of(WireFormat format) {
  return format == WireFormat::kFloat16 ? Datatype::kFloat16 : Datatype::kBfloat16;
}

}  // namespace

std::uint64_t wire_bytes(WireFormat format, std::uint64_t count) {
  switch (format) {
    case WireFormat::kBfloat16:
    case WireFormat::kFloat16:
      return 2 * count;
    case WireFormat::kFloat8:
      return count + count / kBlockValues + (count % kBlockValues != 0 ? 1 : 0);
    case WireFormat::kExact:
      break;
  }
  return count * sizeof(float);
}

void encode(WireFormat format, std::byte* wire, const float* values, std::uint64_t count) {
  switch (format) {
    case WireFormat::kBfloat16:
    case WireFormat::kFloat16:
      return narrow_half_floats(half_of(format), wire, values, count);
    case WireFormat::kFloat8:
      return encode_blocks(wire, values, count);
    case WireFormat::kExact:
      return copy_bytes(wire, reinterpret_cast<const std::byte*>(values), count * sizeof(float));
  }
}

void decode(WireFormat format, float* values, const std::byte* wire, std::uint64_t count) {
  switch (format) {
    case WireFormat::kBfloat16:
    case WireFormat::kFloat16:
      return widen_half_floats(half_of(format), values, wire, count);
    case WireFormat::kFloat8:
      return decode_blocks(values, wire, count);
    case WireFormat::kExact:
      return copy_bytes(reinterpret_cast<std::byte*>(values), wire, count * sizeof(float));
  }
}

void encode_and_round(WireFormat format, std::byte* wire, float* values, std::uint64_t count) {
  switch (format) {
    case WireFormat::kBfloat16:
    case WireFormat::kFloat16:
      return narrow_and_round_half_floats(half_of(format), wire, values, count);
    case WireFormat::kFloat8:
      return encode_and_round_blocks(wire, values, count);
    case WireFormat::kExact:
      return encode(format, wire, values, count);
  }
}

}  // namespace foldcast::kernels
