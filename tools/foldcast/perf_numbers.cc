#include "tools/foldcast/perf_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace foldcast::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read and written as little-endian");

/// A float of at most 16 bits: sign, exponent, fraction, from the top down.
struct SmallFloat {
  int exponent_bits;
  int fraction_bits;
  /// As IEEE 754 has it: the largest exponent is of infinity and NaN. Else only of NaN, and only with a fraction of
  /// ones; the others are finite.
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int sign_bit() const { return 1 << (exponent_bits + fraction_bits); }
  /// The first magnitude that is not finite.
  int limit() const {
    int top = ((1 << exponent_bits) - 1) << fraction_bits;
    return has_infinity ? top : top | ((1 << fraction_bits) - 1);
  }
  int nan() const { return has_infinity ? limit() | 1 << (fraction_bits - 1) : limit(); }
};
constexpr SmallFloat kHalf{5, 10, true};
constexpr SmallFloat kBrain{8, 7, true};
constexpr SmallFloat kE4m3{4, 3, false};
constexpr SmallFloat kE5m2{5, 2, true};

double decode_small(SmallFloat layout, unsigned bits) {
  auto magnitude = static_cast<int>(bits) & (layout.sign_bit() - 1);
  double sign = (static_cast<int>(bits) & layout.sign_bit()) != 0 ? -1 : 1;
  if (magnitude >= layout.limit()) {
    bool infinite = layout.has_infinity && magnitude == layout.limit();
    return infinite ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  int exponent = magnitude >> layout.fraction_bits;
  int fraction = magnitude & ((1 << layout.fraction_bits) - 1);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - layout.bias() - layout.fraction_bits);
  return sign * std::ldexp(fraction + (1 << layout.fraction_bits), exponent - layout.bias() - layout.fraction_bits);
}

unsigned encode_small(SmallFloat layout, double value) {
  int sign = std::signbit(value) ? layout.sign_bit() : 0;
  if (std::isnan(value)) return static_cast<unsigned>(sign | layout.nan());
  double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<unsigned>(sign | layout.limit());
  if (magnitude == 0) return static_cast<unsigned>(sign);
  // In units of the last place: a subnormal has the exponent of the least normal. nearbyint rounds ties to even, and a
  // carry out of the fraction runs into the exponent field, as it should.
  int exponent = std::max(std::ilogb(magnitude), 1 - layout.bias());
  double units = std::nearbyint(std::ldexp(magnitude, layout.fraction_bits - exponent));
  double bits = units + std::ldexp(exponent + layout.bias() - 1, layout.fraction_bits);
  return static_cast<unsigned>(sign | (bits >= layout.limit() ? layout.limit() : static_cast<int>(bits)));
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
    case Datatype::kFloat8E4m3:
      return {4, 8, -6};
    case Datatype::kFloat8E5m2:
      return {3, 15, -14};
    case Datatype::kFloat32:
      return {24, 127, -126};
    default:
      return {53, 1023, -1022};
  }
}

double decode_float(Datatype dtype, const std::byte* element) {
  switch (dtype) {
    case Datatype::kFloat16:
      return decode_small(kHalf, load<std::uint16_t>(element));
    case Datatype::kBfloat16:
      return decode_small(kBrain, load<std::uint16_t>(element));
    case Datatype::kFloat8E4m3:
      return decode_small(kE4m3, load<std::uint8_t>(element));
    case Datatype::kFloat8E5m2:
      return decode_small(kE5m2, load<std::uint8_t>(element));
    case Datatype::kFloat32:
      return load<float>(element);
    default:
      return load<double>(element);
  }
}

void encode_float(Datatype dtype, double value, std::byte* element) {
  switch (dtype) {
    case Datatype::kFloat16:
      return store(element, static_cast<std::uint16_t>(encode_small(kHalf, value)));
    case Datatype::kBfloat16:
      return store(element, static_cast<std::uint16_t>(encode_small(kBrain, value)));
    case Datatype::kFloat8E4m3:
      return store(element, static_cast<std::uint8_t>(encode_small(kE4m3, value)));
    case Datatype::kFloat8E5m2:
      return store(element, static_cast<std::uint8_t>(encode_small(kE5m2, value)));
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
