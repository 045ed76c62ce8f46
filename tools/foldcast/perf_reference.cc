#include "tools/foldcast/perf_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/foldcast/perf_numbers.h"
#include "tools/foldcast/perf_values.h"

namespace foldcast::tools {
namespace {

bool rounds(const ReferenceShape& shape) {
  return is_floating(shape.dtype) && shape.op != ReduceOp::kMin && shape.op != ReduceOp::kMax;
}

/// A quotient has digits that a narrow wire format does not keep, and it may travel.
bool has_exact_elements(const ReferenceShape& shape) {
  return !(shape.op == ReduceOp::kAvg && shape.dtype == Datatype::kFloat32 && shape.wire != WireFormat::kExact);
}

double premultiplied(const ReferenceShape& shape, int rank, double value) {
  return shape.op == ReduceOp::kPremulSum ? value * premultiplier(rank) : value;
}

std::uint64_t premultiplied(const ReferenceShape& shape, int rank, std::uint64_t value) {
  return shape.op == ReduceOp::kPremulSum ? value * static_cast<std::uint64_t>(premultiplier(rank)) : value;
}

}  // namespace

Reference::Reference(const ReferenceShape& shape, std::size_t total)
    : shape_(shape), period_(std::min(total, kPeriod)), exact_(period_) {
  if (rounds(shape)) exact_ = has_exact_elements(shape) ? period_ - period_ / 4 : 0;
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
    double result = premultiplied(shape_, 0, exact_value(shape_, 0, index));
    for (int rank = 1; rank < shape_.ranks; ++rank) {
      result = combine_floats(shape_.op, result, premultiplied(shape_, rank, exact_value(shape_, rank, index)));
    }
    if (shape_.op == ReduceOp::kAvg) result = divide_float(shape_.dtype, result, shape_.ranks);
    encode_float(shape_.dtype, result, expected);
    encode_float(shape_.dtype, exact_value(shape_, shape_.rank, index), mine);
    return;
  }
  std::uint64_t result = premultiplied(shape_, 0, integer_value(shape_, 0, index));
  for (int rank = 1; rank < shape_.ranks; ++rank) {
    result = combine_integers(shape_, result, premultiplied(shape_, rank, integer_value(shape_, rank, index)));
  }
  encode_integer(shape_.dtype, finish_integer(shape_, result), expected);
  encode_integer(shape_.dtype, integer_value(shape_, shape_.rank, index), mine);
}

void Reference::make_general(std::size_t index) {
  long double result = premultiplied(shape_, 0, general_value(shape_, 0, index));
  long double magnitude = std::fabs(result);
  for (int rank = 1; rank < shape_.ranks; ++rank) {
    long double value = premultiplied(shape_, rank, general_value(shape_, rank, index));
    result = shape_.op == ReduceOp::kProd ? result * value : result + value;
    magnitude += std::fabs(value);
  }
  bound_[index - exact_] = error_bound(shape_, result, magnitude);
  general_[index - exact_] = shape_.op == ReduceOp::kAvg ? result / shape_.ranks : result;
  encode_float(shape_.dtype, general_value(shape_, shape_.rank, index), mine_.data() + index * element_bytes());
}

void Reference::fill(std::byte* buffer, std::size_t first, std::size_t count) const {
  for (std::size_t done = 0; done < count;) {
    std::size_t at = (first + done) % period_;
    std::size_t elements = std::min(period_ - at, count - done);
    std::memcpy(buffer + done * element_bytes(), mine_.data() + at * element_bytes(), elements * element_bytes());
    done += elements;
  }
}

bool Reference::is_wrong(std::size_t index, const std::byte* value) const {
  if (index < exact_) return std::memcmp(value, expected_.data() + index * element_bytes(), element_bytes()) != 0;
  long double difference = std::fabs(decode_float(shape_.dtype, value) - general_[index - exact_]);
  return !(difference <= bound_[index - exact_]);  // so that NaN is wrong
}

std::string Reference::describe(std::size_t at, const std::byte* value) const {
  if (!is_floating(shape_.dtype)) {
    std::uint64_t got = decode_integer(shape_.dtype, value);
    std::uint64_t want = decode_integer(shape_.dtype, expected_.data() + at * element_bytes());
    if (!is_signed(shape_.dtype)) return fmt::format("{}, expected {}", got, want);
    return fmt::format("{}, expected {}", static_cast<std::int64_t>(got), static_cast<std::int64_t>(want));
  }
  double got = decode_float(shape_.dtype, value);
  if (at < exact_) {
    return fmt::format("{}, expected {}", got, decode_float(shape_.dtype, expected_.data() + at * element_bytes()));
  }
  return fmt::format("{}, expected {} within {:.2g}", got, static_cast<double>(general_[at - exact_]),
                     static_cast<double>(bound_[at - exact_]));
}

Wrong Reference::check(const std::byte* buffer, std::size_t first, std::size_t count) const {
  Wrong wrong;
  for (std::size_t done = 0; done < count;) {
    std::size_t at = (first + done) % period_;
    std::size_t elements = std::min(period_ - at, count - done);
    const std::byte* block = buffer + done * element_bytes();
    // Mostly all is well: one comparison for the exact part, element by element only what it leaves.
    std::size_t exact = at < exact_ ? std::min(elements, exact_ - at) : 0;
    bool equal =
        exact == 0 || std::memcmp(block, expected_.data() + at * element_bytes(), exact * element_bytes()) == 0;
    for (std::size_t i = equal ? exact : 0; i < elements; ++i) {
      const std::byte* value = block + i * element_bytes();
      if (!is_wrong(at + i, value)) continue;
      if (wrong.elements++ == 0) wrong.first = fmt::format("element {}: {}", done + i, describe(at + i, value));
    }
    done += elements;
  }
  return wrong;
}

Wrong Reference::check_contribution(const std::byte* buffer, std::size_t first, std::size_t count) const {
  Wrong wrong;
  for (std::size_t done = 0; done < count;) {
    std::size_t at = (first + done) % period_;
    std::size_t elements = std::min(period_ - at, count - done);
    const std::byte* block = buffer + done * element_bytes();
    const std::byte* mine = mine_.data() + at * element_bytes();
    bool equal = std::memcmp(block, mine, elements * element_bytes()) == 0;
    for (std::size_t i = equal ? elements : 0; i < elements; ++i) {
      if (std::memcmp(block + i * element_bytes(), mine + i * element_bytes(), element_bytes()) == 0) continue;
      if (wrong.elements++ == 0) wrong.first = fmt::format("element {} is not what was given", done + i);
    }
    done += elements;
  }
  return wrong;
}

}  // namespace foldcast::tools
