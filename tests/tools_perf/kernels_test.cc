#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/reducer.h"
#include "kernels/wire_format.h"
#include "tools/foldcast/perf_numbers.h"
#include "tools/foldcast/perf_reference.h"

namespace foldcast::tools {
namespace {

constexpr std::size_t kCount = 4099;

std::uint64_t fresh_seed() {
  std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

void premultiply(const ReferenceShape& shape, std::vector<std::byte>& values) {
  std::byte scalar[8];
  if (is_floating(shape.dtype)) {
    encode_float(shape.dtype, premultiplier(shape.rank), scalar);
  } else {
    encode_integer(shape.dtype, static_cast<std::uint64_t>(premultiplier(shape.rank)), scalar);
  }
  kernels::scale(shape.dtype, values.data(), values.data(), kCount, scalar);
}

/// What a rank contributes to the reduction.
std::vector<std::byte> contribution(const ReferenceShape& shape) {
  std::vector<std::byte> values(kCount * size_of(shape.dtype));
  Reference(shape, kCount).fill(values.data(), 0, kCount);
  if (shape.op == ReduceOp::kPremulSum) premultiply(shape, values);
  return values;
}

using Shape = std::tuple<Datatype, ReduceOp, int>;

class KernelsTest : public ::testing::TestWithParam<Shape> {};

TEST_P(KernelsTest, GiveWhatTheReferenceExpects) {
  auto [dtype, op, ranks] = GetParam();
  ReferenceShape shape{dtype, op, ranks, 0, fresh_seed()};
  std::vector<std::vector<std::byte>> values;
  std::vector<const std::byte*> inputs;
  for (shape.rank = 0; shape.rank < ranks; ++shape.rank) values.push_back(contribution(shape));
  std::shuffle(values.begin(), values.end(), std::mt19937_64(shape.seed));
  for (const auto& one : values) inputs.push_back(one.data());
  shape.rank = 0;
  Reference reference(shape, kCount);

  std::vector<std::byte> at_once(values[0].size());
  kernels::reduce_n(pairwise(op), dtype, at_once.data(), inputs, kCount);
  std::vector<std::byte> in_pairs = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    kernels::reduce(pairwise(op), dtype, in_pairs.data(), in_pairs.data(), values[i].data(), kCount);
  }
  for (std::vector<std::byte>* result : {&at_once, &in_pairs}) {
    if (op == ReduceOp::kAvg) kernels::divide(dtype, result->data(), static_cast<std::uint64_t>(ranks), kCount);
    Wrong wrong = reference.check(result->data(), 0, kCount);
    EXPECT_EQ(wrong.elements, 0u) << (result == &at_once ? "at once: " : "in pairs: ") << wrong.first;
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      if (!is_defined(static_cast<Datatype>(dtype), static_cast<ReduceOp>(op))) continue;
      for (int ranks : {2, 3, 8}) list.emplace_back(static_cast<Datatype>(dtype), static_cast<ReduceOp>(op), ranks);
    }
  }
  return list;
}

std::string shape_name(const ::testing::TestParamInfo<Shape>& shape) {
  auto [dtype, op, ranks] = shape.param;
  return std::string(to_string(dtype)) + "_" + std::string(to_string(op)) + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, KernelsTest, ::testing::ValuesIn(shapes()), shape_name);

/// A ring of ranks that round every partial sum, and the result, as they send it.
TEST(WireFormats, StayWithinTheBoundOfTheReference) {
  std::uint64_t seed = fresh_seed();
  for (WireFormat wire : {WireFormat::kBfloat16, WireFormat::kFloat16, WireFormat::kFloat8}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg}) {
      for (int ranks : {2, 3, 8, 16}) {
        ReferenceShape shape{Datatype::kFloat32, op, ranks, 0, seed, wire};
        std::vector<std::byte> message(kernels::wire_bytes(wire, kCount));
        std::vector<std::byte> sum = contribution(shape);
        auto* values = reinterpret_cast<float*>(sum.data());
        for (shape.rank = 1; shape.rank < ranks; ++shape.rank) {
          kernels::encode_and_round(wire, message.data(), values, kCount);
          kernels::reduce(pairwise(op), shape.dtype, sum.data(), sum.data(), contribution(shape).data(), kCount);
        }
        if (op == ReduceOp::kAvg) kernels::divide(shape.dtype, sum.data(), static_cast<std::uint64_t>(ranks), kCount);
        kernels::encode_and_round(wire, message.data(), values, kCount);
        shape.rank = 0;
        Wrong wrong = Reference(shape, kCount).check(sum.data(), 0, kCount);
        EXPECT_EQ(wrong.elements, 0u) << to_string(wire) << " " << to_string(op) << " " << ranks << ": " << wrong.first;
      }
    }
  }
}

}  // namespace
}  // namespace foldcast::tools
