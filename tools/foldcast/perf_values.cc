#include "tools/foldcast/perf_values.h"

#include <algorithm>
#include <cmath>

#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools {
namespace {

constexpr int kEveryone = -1;  ///< in place of a rank: a number all ranks draw alike

std::uint64_t draw(const ReferenceShape& shape, int rank, std::size_t index) {
  return mix(mix(shape.seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(rank + 2)) + index);
}

/// Whether `rank` is one of the `most` ranks that contribute more than the neutral element at `index`.
bool contributes(const ReferenceShape& shape, int rank, std::size_t index, std::int64_t most) {
  if (shape.ranks <= most) return true;
  auto shift = draw(shape, kEveryone, index) % static_cast<std::uint64_t>(shape.ranks);
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(rank) + shift) %
                                   static_cast<std::uint64_t>(shape.ranks)) < most;
}

bool sums(ReduceOp op) { return pairwise(op) == ReduceOp::kSum; }
bool is_logical(ReduceOp op) { return op == ReduceOp::kLand || op == ReduceOp::kLor || op == ReduceOp::kLxor; }

/// The logical op that an op is of bool.
ReduceOp of_bool(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kMin:
    case ReduceOp::kBand:
      return ReduceOp::kLand;
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBor:
      return ReduceOp::kLor;
    case ReduceOp::kBxor:
      return ReduceOp::kLxor;
    default:
      return op;
  }
}

/// Whether the element is to be zero for logical ops: as often as leaves the result open for any number of ranks.
bool is_false(const ReferenceShape& shape, ReduceOp op, std::uint64_t bits) {
  auto odds = static_cast<std::uint64_t>(2 * shape.ranks);
  std::uint64_t chance = (bits >> 32) % odds;
  if (op == ReduceOp::kLand) return chance == 0;
  if (op == ReduceOp::kLor) return chance != 0;
  return chance < odds / 2;
}

/// Digits and least exponent of what a wire format keeps of a float32; float8's share a scale, see error_bound().
Precision wire_precision(WireFormat wire) {
  switch (wire) {
    case WireFormat::kBfloat16:
      return {8, -126};
    case WireFormat::kFloat16:
      return {11, -14};
    case WireFormat::kFloat8:
      return {4, -6};
    default:
      return {24, -126};
  }
}

bool travels_narrow(const ReferenceShape& shape) {
  return shape.dtype == Datatype::kFloat32 && shape.wire != WireFormat::kExact;
}

}  // namespace

std::uint64_t integer_value(const ReferenceShape& shape, int rank, std::size_t index) {
  std::uint64_t bits = draw(shape, rank, index);
  ReduceOp op = shape.dtype == Datatype::kBool ? of_bool(shape.op) : shape.op;
  if (is_logical(op) && is_false(shape, op, bits)) return 0;
  if (shape.dtype == Datatype::kBool) return 1;
  if (is_logical(op) || op == ReduceOp::kProd) bits |= 1;
  std::byte element[8];
  encode_integer(shape.dtype, bits, element);
  return decode_integer(shape.dtype, element);
}

std::uint64_t combine_integers(const ReferenceShape& shape, std::uint64_t a, std::uint64_t b) {
  bool less = is_signed(shape.dtype) ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  switch (shape.dtype == Datatype::kBool ? of_bool(shape.op) : shape.op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return less ? a : b;
    case ReduceOp::kMax:
      return less ? b : a;
    case ReduceOp::kLand:
      return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::kLor:
      return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::kLxor:
      return (a != 0) != (b != 0) ? 1 : 0;
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
    default:
      return a + b;
  }
}

std::uint64_t finish_integer(const ReferenceShape& shape, std::uint64_t combined) {
  if (shape.ranks == 1) return combined;  // a single contribution is the result, as it is
  if (shape.dtype == Datatype::kBool || is_logical(shape.op)) return combined != 0 ? 1 : 0;
  if (shape.op != ReduceOp::kAvg) return combined;
  // The wrapped sum divided once, rounding toward zero.
  std::byte element[8];
  encode_integer(shape.dtype, combined, element);
  std::uint64_t wrapped = decode_integer(shape.dtype, element);
  if (!is_signed(shape.dtype)) return wrapped / static_cast<std::uint64_t>(shape.ranks);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(wrapped) / shape.ranks);
}

Precision kept_precision(const ReferenceShape& shape) {
  FloatFormat format = float_format(shape.dtype);
  Precision kept{format.digits, format.min_exponent};
  if (!travels_narrow(shape)) return kept;
  Precision wire = wire_precision(shape.wire);
  return {std::min(kept.digits, wire.digits), std::max(kept.min_exponent, wire.min_exponent)};
}

double exact_value(const ReferenceShape& shape, int rank, std::size_t index) {
  Precision kept = kept_precision(shape);
  std::uint64_t bits = draw(shape, rank, index);
  double sign = (bits & 1) != 0 ? -1 : 1;
  bits >>= 1;
  if (shape.op == ReduceOp::kProd) {
    if (!contributes(shape, rank, index, -kept.min_exponent)) return sign;
    return sign * std::ldexp(1.0, static_cast<int>(bits % 3) - 1);
  }
  // Whole numbers up to 2^digits are representable, so `most` summands of at most `largest` never round.
  std::int64_t budget = std::int64_t{1} << std::min(kept.digits, 40);
  if (shape.op == ReduceOp::kPremulSum) budget /= 2;  // the largest multiplier
  bool adds = sums(shape.op);
  std::int64_t most = adds ? std::min<std::int64_t>(shape.ranks, budget) : 1;
  std::int64_t largest = budget / most;
  if (adds && !contributes(shape, rank, index, most)) return 0;
  double value = static_cast<double>(bits % static_cast<std::uint64_t>(largest + 1));
  // -0 + 0 depends on whether somebody starts from 0; min and max must get it right.
  return adds && value == 0 ? 0 : sign * value;
}

double general_value(const ReferenceShape& shape, int rank, std::size_t index) {
  double uniform = static_cast<double>(draw(shape, rank, index) >> 11) * 0x1p-53;
  double value = 2 * uniform - 1;
  if (shape.op == ReduceOp::kProd) {
    // Near enough to +-1 that the product of all ranks stays between e^-2 and e^2.
    double spread = std::min(1.0, 4.0 / shape.ranks);
    value = (draw(shape, rank, ~index) & 1 ? -1 : 1) * (1 + (uniform - 0.5) * spread);
  }
  std::byte element[8];
  encode_float(shape.dtype, value, element);
  return decode_float(shape.dtype, element);
}

double combine_floats(ReduceOp op, double a, double b) {
  bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return less ? a : b;
    case ReduceOp::kMax:
      return less ? b : a;
    default:
      return a + b;
  }
}

double divide_float(Datatype dtype, double sum, int ranks) {
  if (dtype == Datatype::kFloat64) return sum / ranks;
  return static_cast<float>(sum) / static_cast<float>(ranks);
}

long double error_bound(const ReferenceShape& shape, long double result, long double magnitude) {
  FloatFormat format = float_format(shape.dtype);
  long double unit = std::ldexp(1.0L, -format.digits);
  long double roundings = 1.01L * shape.ranks * unit;  // (1 + u)^n - 1 and a little more
  // Below the least normal number roundings are absolute.
  long double absolute = shape.ranks * std::ldexp(1.0L, format.min_exponent - format.digits);
  if (travels_narrow(shape)) {
    Precision wire = wire_precision(shape.wire);
    roundings += 1.01L * (shape.ranks + 1) * std::ldexp(1.0L, -wire.digits);
    long double least = std::ldexp(1.0L, wire.min_exponent - wire.digits);
    if (shape.wire == WireFormat::kFloat8) {
      // The scale brings the largest of 32 values to at least 2^7, half of the largest power of two that is finite; the
      // least step is 2^-9 of that scale. No value here is above the ranks' number or the exact elements' budget.
      long double largest = std::max(2.0L * shape.ranks, 16.0L);
      least = largest * std::ldexp(1.0L, -7 - 9 - 1);
    }
    absolute += (shape.ranks + 1) * least * std::exp(roundings);
  }
  long double growth = std::expm1(roundings);
  long double bound = growth * (shape.op == ReduceOp::kProd ? std::fabs(result) : magnitude);
  if (shape.op == ReduceOp::kProd) absolute *= std::exp(2.0L);  // what later factors make of it
  if (shape.op == ReduceOp::kAvg) {
    result /= shape.ranks;
    bound = bound / shape.ranks + 1.01L * unit * (std::fabs(result) + bound);
  }
  return bound + absolute;
}

}  // namespace foldcast::tools
