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
  kFloat8E4m3 = 12,  ///< OCP 8-bit float E4M3: no infinity, NaN is S.1111.111, largest 448
  kFloat8E5m2 = 13,  ///< OCP 8-bit float E5M2: as IEEE, largest 57344
  kBool = 14,        ///< one byte; zero is false, anything else true; results are 0 or 1
};
inline constexpr std::size_t kDatatypeCount = 15;

/// Bytes of one element.
constexpr std::size_t size_of(Datatype dtype) {
  constexpr std::uint8_t sizes[kDatatypeCount] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1};
  return sizes[static_cast<std::size_t>(dtype)];
}
constexpr bool is_floating(Datatype dtype) { return dtype >= Datatype::kFloat16 && dtype <= Datatype::kFloat8E5m2; }
/// True for a value that is one of the enumerators; what arrives over the C ABI or the wire must be asked.
constexpr bool is_valid(Datatype dtype) { return static_cast<std::size_t>(dtype) < kDatatypeCount; }

/// "float32" and so on, as the command line spells them.
std::string_view to_string(Datatype dtype);
/// The inverse; also takes the field's aliases: half, bf16, float, double, fp16, fp8_e4m3, fp8_e5m2.
std::optional<Datatype> datatype_from_string(std::string_view name);

}  // namespace foldcast
