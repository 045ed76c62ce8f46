#include "tools/foldcast/perf_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools {
namespace {

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014), the finalizer of SplitMix64.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

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

std::uint64_t integer_value(const ReferenceShape& shape, int rank, std::size_t index) {
  std::uint64_t bits = draw(shape, rank, index) | (shape.op == ReduceOp::kProd ? 1 : 0);
  std::byte element[8];
  encode_integer(shape.dtype, bits, element);
  return decode_integer(shape.dtype, element);
}

double exact_value(const ReferenceShape& shape, int rank, std::size_t index) {
  FloatFormat format = float_format(shape.dtype);
  std::uint64_t bits = draw(shape, rank, index);
  double sign = (bits & 1) != 0 ? -1 : 1;
  bits >>= 1;
  if (shape.op == ReduceOp::kProd) {
    if (!contributes(shape, rank, index, -format.min_exponent)) return sign;
    return sign * std::ldexp(1.0, static_cast<int>(bits % 3) - 1);
  }
  // Whole numbers up to 2^digits are representable, so `most` summands of at most `largest` never round.
  std::int64_t budget = std::int64_t{1} << std::min(format.digits, 40);
  std::int64_t most =
      shape.op == ReduceOp::kMin || shape.op == ReduceOp::kMax ? 1 : std::min<std::int64_t>(shape.ranks, budget);
  std::int64_t largest = budget / most;
  bool sums = shape.op == ReduceOp::kSum || shape.op == ReduceOp::kAvg;
  if (sums && !contributes(shape, rank, index, most)) return 0;
  double value = static_cast<double>(bits % static_cast<std::uint64_t>(largest + 1));
  // -0 + 0 depends on whether somebody starts from 0; min and max must get it right.
  return sums && value == 0 ? 0 : sign * value;
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

std::uint64_t combine_integers(const ReferenceShape& shape, std::uint64_t a, std::uint64_t b) {
  bool less = is_signed(shape.dtype) ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  switch (shape.op) {
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

/// The wrapped sum divided once, rounding toward zero.
std::uint64_t divide_integer(const ReferenceShape& shape, std::uint64_t sum) {
  std::byte element[8];
  encode_integer(shape.dtype, sum, element);
  std::uint64_t wrapped = decode_integer(shape.dtype, element);
  if (!is_signed(shape.dtype)) return wrapped / static_cast<std::uint64_t>(shape.ranks);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(wrapped) / shape.ranks);
}

/// Floats divide in their own precision, 16-bit ones in float32.
double divide_float(Datatype dtype, double sum, int ranks) {
  if (dtype == Datatype::kFloat64) return sum / ranks;
  return static_cast<float>(sum) / static_cast<float>(ranks);
}

}  // namespace

Reference::Reference(const ReferenceShape& shape, std::size_t count)
    : shape_(shape), count_(count), period_(std::min(count, kPeriod)), exact_(period_) {
  bool rounds = is_floating(shape.dtype) && shape.op != ReduceOp::kMin && shape.op != ReduceOp::kMax;
  if (rounds) exact_ = period_ - period_ / 4;
  mine_.resize(period_ * element_bytes());
  expected_.resize(exact_ * element_bytes());
  general_.resize(period_ - exact_);
  bound_.resize(period_ - exact_);
  for (std::size_t i = 0; i < exact_; ++i) make_exact(i);
  for (std::size_t i = exact_; i < period_; ++i) make_general(i);
}

void Reference::make_exact(std::size_t index) {
  std::byte* mine = mine_.data() + index * element_bytes();
  std::byte* expected = expected_.data() + index * element_bytes();
  if (is_floating(shape_.dtype)) {
    double result = exact_value(shape_, 0, index);
    for (int rank = 1; rank < shape_.ranks; ++rank) {
      result = combine_floats(shape_.op, result, exact_value(shape_, rank, index));
    }
    if (shape_.op == ReduceOp::kAvg) result = divide_float(shape_.dtype, result, shape_.ranks);
    encode_float(shape_.dtype, result, expected);
    encode_float(shape_.dtype, exact_value(shape_, shape_.rank, index), mine);
    return;
  }
  std::uint64_t result = integer_value(shape_, 0, index);
  for (int rank = 1; rank < shape_.ranks; ++rank) {
    result = combine_integers(shape_, result, integer_value(shape_, rank, index));
  }
  if (shape_.op == ReduceOp::kAvg) result = divide_integer(shape_, result);
  encode_integer(shape_.dtype, result, expected);
  encode_integer(shape_.dtype, integer_value(shape_, shape_.rank, index), mine);
}

void Reference::make_general(std::size_t index) {
  FloatFormat format = float_format(shape_.dtype);
  long double result = general_value(shape_, 0, index);
  long double magnitude = std::fabs(result);
  for (int rank = 1; rank < shape_.ranks; ++rank) {
    long double value = general_value(shape_, rank, index);
    result = shape_.op == ReduceOp::kProd ? result * value : result + value;
    magnitude += std::fabs(value);
  }
  long double unit = std::ldexp(1.0L, -format.digits);
  long double growth = std::expm1(1.01L * shape_.ranks * unit);  // (1 + u)^n - 1 and a little more
  long double bound = growth * (shape_.op == ReduceOp::kProd ? std::fabs(result) : magnitude);
  if (shape_.op == ReduceOp::kAvg) {
    result /= shape_.ranks;
    bound = bound / shape_.ranks + 1.01L * unit * (std::fabs(result) + bound);
  }
  // Below the least normal number roundings are absolute.
  bound += shape_.ranks * std::ldexp(1.0L, format.min_exponent - format.digits);
  general_[index - exact_] = result;
  bound_[index - exact_] = bound;
  encode_float(shape_.dtype, general_value(shape_, shape_.rank, index), mine_.data() + index * element_bytes());
}

void Reference::fill(std::byte* buffer) const {
  for (std::size_t done = 0; done < count_; done += period_) {
    std::size_t elements = std::min(period_, count_ - done);
    std::memcpy(buffer + done * element_bytes(), mine_.data(), elements * element_bytes());
  }
}

bool Reference::is_wrong(std::size_t index, const std::byte* value) const {
  if (index < exact_) return std::memcmp(value, expected_.data() + index * element_bytes(), element_bytes()) != 0;
  long double difference = std::fabs(decode_float(shape_.dtype, value) - general_[index - exact_]);
  return !(difference <= bound_[index - exact_]);  // so that NaN is wrong
}

std::string Reference::describe(std::size_t index, const std::byte* value) const {
  std::size_t at = index % period_;
  if (!is_floating(shape_.dtype)) {
    std::uint64_t got = decode_integer(shape_.dtype, value);
    std::uint64_t want = decode_integer(shape_.dtype, expected_.data() + at * element_bytes());
    if (!is_signed(shape_.dtype)) return fmt::format("element {}: {}, expected {}", index, got, want);
    return fmt::format("element {}: {}, expected {}", index, static_cast<std::int64_t>(got),
                       static_cast<std::int64_t>(want));
  }
  double got = decode_float(shape_.dtype, value);
  if (at < exact_) {
    return fmt::format("element {}: {}, expected {}", index, got,
                       decode_float(shape_.dtype, expected_.data() + at * element_bytes()));
  }
  return fmt::format("element {}: {}, expected {} within {:.2g}", index, got,
                     static_cast<double>(general_[at - exact_]), static_cast<double>(bound_[at - exact_]));
}

Wrong Reference::check(const std::byte* buffer) const {
  Wrong wrong;
  for (std::size_t done = 0; done < count_; done += period_) {
    std::size_t elements = std::min(period_, count_ - done);
    const std::byte* block = buffer + done * element_bytes();
    // Mostly all is well: one comparison for the exact part, element by element only what it leaves.
    bool equal = std::memcmp(block, expected_.data(), std::min(elements, exact_) * element_bytes()) == 0;
    for (std::size_t i = equal ? std::min(elements, exact_) : 0; i < elements; ++i) {
      const std::byte* value = block + i * element_bytes();
      if (!is_wrong(i, value)) continue;
      if (wrong.elements++ == 0) wrong.first = describe(done + i, value);
    }
  }
  return wrong;
}

}  // namespace foldcast::tools
