#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace foldcast::kernels::test {
namespace {

template <class T>
T element(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void set_element(Bytes& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <class Float>
Float apply_float(ReduceOp op, Float a, Float b) {
  if (pairwise(op) == ReduceOp::kSum) return a + b;
  if (op == ReduceOp::kProd) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  const bool a_first = a == b ? std::signbit(a) : a < b;
  return (op == ReduceOp::kMin) == a_first ? a : b;
}

template <class T>
T apply_integer(ReduceOp op, T a, T b) {
  const __int128 wide_a = a;
  const __int128 wide_b = b;
  switch (op) {
    case ReduceOp::kLand:
      return static_cast<T>(a != 0 && b != 0);
    case ReduceOp::kLor:
      return static_cast<T>(a != 0 || b != 0);
    case ReduceOp::kLxor:
      return static_cast<T>((a != 0) != (b != 0));
    case ReduceOp::kBand:
      return static_cast<T>(a & b);
    case ReduceOp::kBor:
      return static_cast<T>(a | b);
    case ReduceOp::kBxor:
      return static_cast<T>(a ^ b);
    case ReduceOp::kProd:
      return static_cast<T>(static_cast<unsigned __int128>(wide_a) * static_cast<unsigned __int128>(wide_b));
    case ReduceOp::kMin:
      return wide_a < wide_b ? a : b;
    case ReduceOp::kMax:
      return wide_a > wide_b ? a : b;
    default:
      return static_cast<T>(wide_a + wide_b);
  }
}

// A codec: how a datatype is stored, and in what it accumulates.

template <class T>
struct PlainCodec {
  using Stored = T;
  using Wide = T;
  static Wide decode(Stored value) { return value; }
  static Stored encode(Wide value) {
    if constexpr (std::is_floating_point_v<T>) {
      return canonical(value);
    } else {
      return value;
    }
  }
};
template <class Bits, int kExponentBits, int kMantissaBits>
struct SmallFloatCodec {
  using Stored = Bits;
  using Wide = float;
  static Wide decode(Stored bits) { return static_cast<float>(decode_float(bits, kExponentBits, kMantissaBits)); }
  static Stored encode(Wide value) { return static_cast<Stored>(encode_float(value, kExponentBits, kMantissaBits)); }
};
struct E4m3Codec {
  using Stored = std::uint8_t;
  using Wide = float;
  static Wide decode(Stored bits) { return static_cast<float>(decode_e4m3(bits)); }
  static Stored encode(Wide value) { return static_cast<Stored>(encode_e4m3(value)); }
};
struct BoolCodec {
  using Stored = std::uint8_t;
  using Wide = bool;
  static Wide decode(Stored value) { return value != 0; }
  static Stored encode(Wide value) { return value ? 1 : 0; }
};

bool apply_bool(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kMin:
    case ReduceOp::kLand:
    case ReduceOp::kBand:
      return a && b;
    case ReduceOp::kLxor:
    case ReduceOp::kBxor:
      return a != b;
    default:
      return a || b;
  }
}

template <class Codec>
Bytes fold_as(ReduceOp op, const std::vector<Bytes>& inputs) {
  using Stored = typename Codec::Stored;
  Bytes result(inputs[0].size());
  if (inputs.size() == 1) return inputs[0];
  for (std::size_t i = 0; i < result.size() / sizeof(Stored); ++i) {
    auto sum = Codec::decode(element<Stored>(inputs[0], i));
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      const auto next = Codec::decode(element<Stored>(inputs[k], i));
      if constexpr (std::is_floating_point_v<typename Codec::Wide>) {
        sum = apply_float(op, sum, next);
      } else if constexpr (std::is_same_v<typename Codec::Wide, bool>) {
        sum = apply_bool(op, sum, next);
      } else {
        sum = apply_integer(op, sum, next);
      }
    }
    set_element<Stored>(result, i, Codec::encode(sum));
  }
  return result;
}

template <class Codec>
Bytes divide_as(const Bytes& values, std::uint64_t divisor) {
  using Stored = typename Codec::Stored;
  using Wide = typename Codec::Wide;
  Bytes result(values.size());
  if (divisor == 1) return values;
  for (std::size_t i = 0; i < result.size() / sizeof(Stored); ++i) {
    const Wide value = Codec::decode(element<Stored>(values, i));
    Wide quotient;
    if constexpr (std::is_floating_point_v<Wide>) {
      quotient = value / static_cast<Wide>(divisor);
    } else {
      quotient = static_cast<Wide>(static_cast<__int128>(value) / static_cast<__int128>(divisor));
    }
    set_element<Stored>(result, i, Codec::encode(quotient));
  }
  return result;
}

template <class Codec>
Bytes scale_as(const Bytes& values, const Bytes& scalar) {
  using Stored = typename Codec::Stored;
  const auto factor = Codec::decode(element<Stored>(scalar, 0));
  Bytes result(values.size());
  for (std::size_t i = 0; i < result.size() / sizeof(Stored); ++i) {
    const auto value = Codec::decode(element<Stored>(values, i));
    if constexpr (std::is_floating_point_v<typename Codec::Wide>) {
      set_element<Stored>(result, i, Codec::encode(value * factor));
    } else {
      set_element<Stored>(result, i, apply_integer(ReduceOp::kProd, Stored(value), Stored(factor)));
    }
  }
  return result;
}

template <class Function>
Bytes with_codec(Datatype dtype, const Function& function) {
  switch (dtype) {
    case Datatype::kInt8:
      return function(PlainCodec<std::int8_t>{});
    case Datatype::kUint8:
      return function(PlainCodec<std::uint8_t>{});
    case Datatype::kInt16:
      return function(PlainCodec<std::int16_t>{});
    case Datatype::kUint16:
      return function(PlainCodec<std::uint16_t>{});
    case Datatype::kInt32:
      return function(PlainCodec<std::int32_t>{});
    case Datatype::kUint32:
      return function(PlainCodec<std::uint32_t>{});
    case Datatype::kInt64:
      return function(PlainCodec<std::int64_t>{});
    case Datatype::kUint64:
      return function(PlainCodec<std::uint64_t>{});
    case Datatype::kFloat16:
      return function(SmallFloatCodec<std::uint16_t, 5, 10>{});
    case Datatype::kBfloat16:
      return function(SmallFloatCodec<std::uint16_t, 8, 7>{});
    case Datatype::kFloat32:
      return function(PlainCodec<float>{});
    case Datatype::kFloat64:
      return function(PlainCodec<double>{});
    case Datatype::kFloat8E4m3:
      return function(E4m3Codec{});
    case Datatype::kFloat8E5m2:
      return function(SmallFloatCodec<std::uint8_t, 5, 2>{});
    case Datatype::kBool:
      return function(BoolCodec{});
  }
  return {};
}

}  // namespace

Bytes reference_fold(ReduceOp op, Datatype dtype, const std::vector<Bytes>& inputs) {
  return with_codec(dtype, [&]<class Codec>(Codec) { return fold_as<Codec>(op, inputs); });
}

Bytes reference_divide(Datatype dtype, const Bytes& values, std::uint64_t divisor) {
  return with_codec(dtype, [&]<class Codec>(Codec) { return divide_as<Codec>(values, divisor); });
}

Bytes reference_scale(Datatype dtype, const Bytes& values, const Bytes& scalar) {
  return with_codec(dtype, [&]<class Codec>(Codec) { return scale_as<Codec>(values, scalar); });
}

double decode_float(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int top = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & top;
  const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa_bits)) & 1;
  double value;
  if (exponent == top) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const std::uint32_t implied = exponent == 0 ? 0 : 1U << mantissa_bits;
    value = std::ldexp(static_cast<double>(mantissa | implied), std::max(exponent, 1) - bias - mantissa_bits);
  }
  return negative ? -value : value;
}

std::uint32_t encode_float(double value, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return infinity | (1U << (mantissa_bits - 1));
  const std::uint32_t sign = std::signbit(value) ? 1U << (exponent_bits + mantissa_bits) : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - bias);
  // In units of the last place. nearbyint rounds ties to even in the default mode.
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  const double rounded = std::ldexp(units, exponent - mantissa_bits);
  if (rounded >= std::ldexp(1.0, bias + 1)) return sign | infinity;
  const auto whole = static_cast<std::uint32_t>(units);
  const std::uint32_t implied = 1U << mantissa_bits;
  if (whole < implied) return sign | whole;
  // A carry to 2 * implied lands on the next exponent with a zero mantissa by plain addition.
  return sign | ((static_cast<std::uint32_t>(exponent + bias) << mantissa_bits) + (whole - implied));
}

double decode_e4m3(std::uint32_t bits) {
  if ((bits & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  // With a fifth exponent bit above, none of the numbers has the topmost exponent.
  const double magnitude = std::ldexp(decode_float(bits & 0x7F, 5, 3), 8);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint32_t encode_e4m3(double value) {
  const double magnitude = std::fabs(value);
  // Linear search in the order of the codes: the nearest, and of two equally near the even one.
  std::uint32_t nearest = 0;
  double least = magnitude;
  for (std::uint32_t code = 1; code <= 0x7E; ++code) {
    const double distance = std::fabs(magnitude - decode_e4m3(code));
    if (distance < least || (distance == least && code % 2 == 0)) {
      nearest = code;
      least = distance;
    }
  }
  if (std::isnan(value) || magnitude > 464) return 0x7F;
  return nearest | (std::signbit(value) ? 0x80 : 0);
}

}  // namespace foldcast::kernels::test
