#include "tools/foldcast/perf_numbers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace foldcast::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read and written as little-endian");

/// IEEE 754 interchange layout of a 16-bit float.
struct Layout16 {
  int exponent_bits;
  int fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr Layout16 kHalf{5, 10};
constexpr Layout16 kBrain{8, 7};

double decode16(Layout16 layout, std::uint16_t bits) {
  int exponent = bits >> layout.fraction_bits & ((1 << layout.exponent_bits) - 1);
  int fraction = bits & ((1 << layout.fraction_bits) - 1);
  double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << layout.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - layout.bias() - layout.fraction_bits);
  return sign * std::ldexp(fraction + (1 << layout.fraction_bits), exponent - layout.bias() - layout.fraction_bits);
}

std::uint16_t encode16(Layout16 layout, double value) {
  auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  int infinity = ((1 << layout.exponent_bits) - 1) << layout.fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | 1 << (layout.fraction_bits - 1));
  double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  if (magnitude == 0) return sign;
  // In units of the last place: a subnormal has the exponent of the least normal. nearbyint rounds ties to even, and a
  // carry out of the fraction runs into the exponent field, as it should.
  int exponent = std::max(std::ilogb(magnitude), 1 - layout.bias());
  double units = std::nearbyint(std::ldexp(magnitude, layout.fraction_bits - exponent));
  double bits = units + std::ldexp(exponent + layout.bias() - 1, layout.fraction_bits);
  return static_cast<std::uint16_t>(sign | (bits >= infinity ? infinity : static_cast<int>(bits)));
}

template <typename T>
T load(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* element, T value) {
  std::memcpy(element, &value, sizeof value);
}

}  // namespace

FloatFormat float_format(Datatype dtype) {
  switch (dtype) {
    case Datatype::kFloat16:
      return {11, 15, -14};
    case Datatype::kBfloat16:
      return {8, 127, -126};
    case Datatype::kFloat32:
      return {24, 127, -126};
    default:
      return {53, 1023, -1022};
  }
}

double decode_float(Datatype dtype, const std::byte* element) {
  switch (dtype) {
    case Datatype::kFloat16:
      return decode16(kHalf, load<std::uint16_t>(element));
    case Datatype::kBfloat16:
      return decode16(kBrain, load<std::uint16_t>(element));
    case Datatype::kFloat32:
      return load<float>(element);
    default:
      return load<double>(element);
  }
}

void encode_float(Datatype dtype, double value, std::byte* element) {
  switch (dtype) {
    case Datatype::kFloat16:
      return store(element, encode16(kHalf, value));
    case Datatype::kBfloat16:
      return store(element, encode16(kBrain, value));
    case Datatype::kFloat32:
      return store(element, static_cast<float>(value));
    default:
      return store(element, value);
  }
}

std::uint64_t decode_integer(Datatype dtype, const std::byte* element) {
  std::uint64_t value = 0;
  std::memcpy(&value, element, size_of(dtype));
  if (!is_signed(dtype)) return value;
  int unused = 64 - 8 * static_cast<int>(size_of(dtype));
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
}

void encode_integer(Datatype dtype, std::uint64_t value, std::byte* element) {
  std::memcpy(element, &value, size_of(dtype));
}

}  // namespace foldcast::tools
