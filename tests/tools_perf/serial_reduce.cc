#include "tests/tools_perf/serial_reduce.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools::testing {
namespace {

double rounded(Datatype dtype, double value) {
  std::byte element[8];
  encode_float(dtype, value, element);
  return decode_float(dtype, element);
}

double of_two(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
    case ReduceOp::kMax: {
      if (std::isnan(a) || std::isnan(b)) return std::nan("");
      bool a_below = a < b || (a == b && std::signbit(a));
      return a_below == (op == ReduceOp::kMin) ? a : b;
    }
    default:
      return a + b;
  }
}

std::uint64_t of_two(Datatype dtype, ReduceOp op, std::uint64_t a, std::uint64_t b) {
  bool below = is_signed(dtype) ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return below ? a : b;
    case ReduceOp::kMax:
      return below ? b : a;
    case ReduceOp::kLand:
      return a != 0 && b != 0;
    case ReduceOp::kLor:
      return a != 0 || b != 0;
    case ReduceOp::kLxor:
      return (a != 0) != (b != 0);
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
    default:
      return dtype == Datatype::kBool ? a | b : a + b;
  }
}

void reduce_float(Datatype dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* result) {
  double value = decode_float(dtype, inputs[0]);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    value = rounded(dtype, of_two(op, value, decode_float(dtype, inputs[i])));
  }
  if (op == ReduceOp::kAvg) {
    auto ranks = static_cast<double>(inputs.size());
    value = dtype == Datatype::kFloat64 ? value / ranks
                                        : static_cast<double>(static_cast<float>(value) / static_cast<float>(ranks));
  }
  encode_float(dtype, value, result);
}

void reduce_integer(Datatype dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* result) {
  std::uint64_t value = decode_integer(dtype, inputs[0]);
  if (inputs.size() == 1) return encode_integer(dtype, value, result);
  bool truth = dtype == Datatype::kBool || op == ReduceOp::kLand || op == ReduceOp::kLor || op == ReduceOp::kLxor;
  if (truth) value = value != 0;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    std::uint64_t next = decode_integer(dtype, inputs[i]);
    encode_integer(dtype, of_two(dtype, op, value, truth ? next != 0 : next), result);
    value = decode_integer(dtype, result);
  }
  if (op == ReduceOp::kAvg) {
    auto ranks = static_cast<std::int64_t>(inputs.size());
    value =
        is_signed(dtype) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value) / ranks) : value / inputs.size();
  }
  encode_integer(dtype, value, result);
}

}  // namespace

void serial_reduce(Datatype dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* result,
                   std::size_t count) {
  std::vector<const std::byte*> elements(inputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t at = i * size_of(dtype);
    for (std::size_t input = 0; input < inputs.size(); ++input) elements[input] = inputs[input] + at;
    std::span<const std::byte* const> these(elements);
    if (is_floating(dtype)) {
      reduce_float(dtype, op, these, result + at);
    } else {
      reduce_integer(dtype, op, these, result + at);
    }
  }
}

void serial_scale(Datatype dtype, const std::byte* scalar, std::byte* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* value = values + i * size_of(dtype);
    if (is_floating(dtype)) {
      encode_float(dtype, decode_float(dtype, value) * decode_float(dtype, scalar), value);
    } else {
      encode_integer(dtype, decode_integer(dtype, value) * decode_integer(dtype, scalar), value);
    }
  }
}

}  // namespace foldcast::tools::testing
