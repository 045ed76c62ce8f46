// The bounds of docs/numbers.md, against float64 and exact sums, on data that is hard to add.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/convert.h"
#include "kernels/reducer.h"
#include "tests/kernels/data.h"

namespace foldcast::kernels::test {
namespace {

/// Half the gap between one and the next number.
double unit_roundoff(Datatype dtype) {
  switch (dtype) {
    case Datatype::kFloat8E4m3:
      return 0x1p-4;
    case Datatype::kFloat8E5m2:
      return 0x1p-3;
    case Datatype::kBfloat16:
      return 0x1p-8;
    case Datatype::kFloat16:
      return 0x1p-11;
    case Datatype::kFloat64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}
/// Half the least number.
double least_half(Datatype dtype) {
  switch (dtype) {
    case Datatype::kFloat8E4m3:
      return 0x1p-10;
    case Datatype::kFloat8E5m2:
      return 0x1p-17;
    case Datatype::kBfloat16:
      return 0x1p-134;
    case Datatype::kFloat16:
      return 0x1p-25;
    default:
      return 0;
  }
}

Bytes stored(Datatype dtype, const std::vector<double>& values) {
  Bytes bytes(values.size() * size_of(dtype));
  if (dtype == Datatype::kFloat64) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  const std::vector<float> floats(values.begin(), values.end());
  if (dtype == Datatype::kFloat32) {
    std::memcpy(bytes.data(), floats.data(), bytes.size());
  } else {
    narrow(dtype, bytes.data(), floats.data(), floats.size());
  }
  return bytes;
}

std::vector<double> loaded(Datatype dtype, const Bytes& bytes) {
  const std::size_t count = bytes.size() / size_of(dtype);
  std::vector<double> values(count);
  if (dtype == Datatype::kFloat64) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<float> floats(count);
  if (dtype == Datatype::kFloat32) {
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  } else {
    widen(dtype, floats.data(), bytes.data(), count);
  }
  return {floats.begin(), floats.end()};
}

class AccuracyTest : public testing::TestWithParam<Datatype> {};

INSTANTIATE_TEST_SUITE_P(EveryFloat, AccuracyTest,
                         testing::Values(Datatype::kFloat8E4m3, Datatype::kFloat8E5m2, Datatype::kFloat16,
                                         Datatype::kBfloat16, Datatype::kFloat32, Datatype::kFloat64),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

/// Cancelling terms of many sizes: what is left is small against what was added.
std::vector<Bytes> hard_inputs(Datatype dtype, std::size_t ranks, std::size_t count, std::mt19937_64& random) {
  std::vector<Bytes> inputs;
  for (std::size_t k = 0; k < ranks; ++k) {
    std::vector<double> values(count);
    for (double& value : values) {
      const std::uint64_t bits = random();
      const double unit = static_cast<double>(bits & 0xFFFF'FFFF) / 0x8000'0000 - 1.0;
      value = std::ldexp(unit, static_cast<int>(bits >> 40 & 7) - 4);
    }
    inputs.push_back(stored(dtype, values));
  }
  return inputs;
}

/// |error| <= steps * u / (1 - steps * u) * sum of magnitudes, for `steps` roundings on the longest way (Higham), and
/// what subnormals lose.
void check(Datatype dtype, const std::vector<Bytes>& inputs, const Bytes& result, std::size_t steps, double u) {
  const std::vector<double> got = loaded(dtype, result);
  std::vector<std::vector<double>> values;
  for (const Bytes& input : inputs) values.push_back(loaded(dtype, input));
  const double share = static_cast<double>(steps) * u / (1 - static_cast<double>(steps) * u);
  for (std::size_t i = 0; i < got.size(); ++i) {
    __float128 exact = 0;
    __float128 magnitudes = 0;
    for (const auto& input : values) {
      exact += input[i];
      magnitudes += std::fabs(input[i]);
    }
    const auto error = static_cast<double>(exact - got[i]);
    const double bound =
        share * static_cast<double>(magnitudes) * (1 + 0x1p-40) + static_cast<double>(steps) * least_half(dtype);
    ASSERT_LE(std::fabs(error), bound) << to_string(dtype) << ", element " << i << " of " << inputs.size() << " ranks";
  }
}

TEST_P(AccuracyTest, OneFoldOfAllRanks) {
  std::mt19937_64 random = fresh_generator();
  for (const std::size_t ranks : {2, 3, 5, 7, 8, 64}) {
    const auto inputs = hard_inputs(GetParam(), ranks, 1009, random);
    std::vector<const std::byte*> pointers;
    for (const Bytes& input : inputs) pointers.push_back(input.data());
    Bytes result(inputs[0].size());
    reduce_n(ReduceOp::kSum, GetParam(), result.data(), pointers, 1009);
    const double u = unit_roundoff(GetParam());
    if (size_of(GetParam()) >= 4) {
      check(GetParam(), inputs, result, ranks - 1, u);
    } else {
      // Accumulated in float32 and rounded once.
      const double accumulated = static_cast<double>(ranks - 1) * 0x1p-24;
      check(GetParam(), inputs, result, 1, u + accumulated + u * accumulated);
    }
  }
}

TEST_P(AccuracyTest, PairwiseInRandomOrder) {
  std::mt19937_64 random = fresh_generator();
  const double u = unit_roundoff(GetParam());
  for (const std::size_t ranks : {2, 3, 5, 7, 8}) {
    const auto inputs = hard_inputs(GetParam(), ranks, 1009, random);
    std::vector<Bytes> rest = inputs;
    while (rest.size() > 1) {
      const std::size_t from = random() % rest.size();
      const Bytes taken = rest[from];
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(from));
      Bytes& into = rest[random() % rest.size()];
      reduce(ReduceOp::kSum, GetParam(), into.data(), into.data(), taken.data(), 1009);
    }
    // The longest way has ranks - 1 roundings; small floats' to float32 first are of no weight beside theirs.
    check(GetParam(), inputs, rest[0], ranks - 1, size_of(GetParam()) >= 4 ? u : u + 0x1p-23);
  }
}

}  // namespace
}  // namespace foldcast::kernels::test
