#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foldcast {

/// Element types of a reduction. The numbers are wire format and C ABI: never renumber.
enum class Datatype : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt16 = 2,
  kUint16 = 3,
  kInt32 = 4,
  kUint32 = 5,
  kInt64 = 6,
  kUint64 = 7,
  kFloat16 = 8,   ///< IEEE 754 binary16
  kBfloat16 = 9,  ///< the upper half of binary32
  kFloat32 = 10,
  kFloat64 = 11,
};
inline constexpr std::size_t kDatatypeCount = 12;

/// Bytes of one element.
constexpr std::size_t size_of(Datatype dtype) {
  constexpr std::uint8_t sizes[kDatatypeCount] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return sizes[static_cast<std::size_t>(dtype)];
}
constexpr bool is_floating(Datatype dtype) { return dtype >= Datatype::kFloat16; }
/// True for a value that is one of the enumerators; what arrives over the C ABI or the wire must be asked.
constexpr bool is_valid(Datatype dtype) { return static_cast<std::size_t>(dtype) < kDatatypeCount; }

/// "float32" and so on, as the command line spells them.
std::string_view to_string(Datatype dtype);
/// The inverse; also takes the field's aliases: half, bf16, float, double, fp16.
std::optional<Datatype> datatype_from_string(std::string_view name);

}  // namespace foldcast
