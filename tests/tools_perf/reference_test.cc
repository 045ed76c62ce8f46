#include "tools/foldcast/perf_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "tests/tools_perf/serial_reduce.h"
#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools {
namespace {

std::uint64_t fresh_seed() {
  std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

using Shape = std::tuple<Datatype, ReduceOp, int>;

class ReferenceTest : public ::testing::TestWithParam<Shape> {
 protected:
  Reference of(int rank, std::size_t count, std::uint64_t seed) const {
    auto [dtype, op, ranks] = GetParam();
    return Reference({dtype, op, ranks, rank, seed}, count);
  }
  std::size_t element() const { return size_of(std::get<0>(GetParam())); }

  /// Reduces the ranks' contributions pairwise, in the order that `shuffle` gives.
  std::vector<std::byte> reduce(std::size_t count, std::uint64_t seed, std::mt19937_64& shuffle) const {
    auto [dtype, op, ranks] = GetParam();
    std::vector<int> order;
    for (int rank = 0; rank < ranks; ++rank) order.push_back(rank);
    std::shuffle(order.begin(), order.end(), shuffle);
    std::vector<std::vector<std::byte>> values;
    std::vector<const std::byte*> inputs;
    for (int rank : order) {
      std::vector<std::byte>& mine = values.emplace_back(count * element());
      of(rank, count, seed).fill(mine.data(), 0, count);
      std::byte scalar[8];
      if (is_floating(dtype)) {
        encode_float(dtype, premultiplier(rank), scalar);
      } else {
        encode_integer(dtype, static_cast<std::uint64_t>(premultiplier(rank)), scalar);
      }
      if (op == ReduceOp::kPremulSum) testing::serial_scale(dtype, scalar, mine.data(), count);
    }
    for (const auto& mine : values) inputs.push_back(mine.data());
    std::vector<std::byte> result(count * element());
    testing::serial_reduce(dtype, pairwise(op) == ReduceOp::kSum && op != ReduceOp::kAvg ? ReduceOp::kSum : op, inputs,
                           result.data(), count);
    return result;
  }
};

TEST_P(ReferenceTest, AcceptsAnyOrderAndRefusesOneFlippedBit) {
  std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  // Every rank computes what all contribute, so that many ranks get few elements.
  std::size_t most = std::get<2>(GetParam()) > 8 ? 61 : 1009;
  for (std::size_t count : {std::size_t{1}, std::size_t{4}, most}) {
    std::vector<std::byte> result = reduce(count, seed, random);
    Reference reference = of(0, count, seed);
    Wrong wrong = reference.check(result.data(), 0, count);
    ASSERT_EQ(wrong.elements, 0u) << count << " elements; " << wrong.first;

    std::size_t at = random() % ((count * 3 + 3) / 4);  // an exact one
    std::size_t bit = random() % (8 * element());
    result[at * element() + bit / 8] ^= std::byte{1} << (bit % 8);
    wrong = reference.check(result.data(), 0, count);
    EXPECT_EQ(wrong.elements, 1u) << "bit " << bit << " of element " << at;
    EXPECT_NE(wrong.first.find("element " + std::to_string(at) + ":"), std::string::npos) << wrong.first;
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      if (!is_defined(static_cast<Datatype>(dtype), static_cast<ReduceOp>(op))) continue;
      for (int ranks : {1, 3, 8, 64}) {
        list.emplace_back(static_cast<Datatype>(dtype), static_cast<ReduceOp>(op), ranks);
      }
    }
  }
  return list;
}

std::string shape_name(const ::testing::TestParamInfo<Shape>& shape) {
  auto [dtype, op, ranks] = shape.param;
  return std::string(to_string(dtype)) + "_" + std::string(to_string(op)) + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceTest, ::testing::ValuesIn(shapes()), shape_name);

// More ranks than bfloat16 has whole numbers for: only some contribute at each element, and the sum stays exact.
INSTANTIATE_TEST_SUITE_P(ManyRanks, ReferenceTest,
                         ::testing::Values(Shape{Datatype::kBfloat16, ReduceOp::kSum, 300},
                                           Shape{Datatype::kFloat16, ReduceOp::kProd, 300}));

TEST(Reference, RefusesNanEverywhere) {
  std::uint64_t seed = fresh_seed();
  for (Datatype dtype : {Datatype::kFloat16, Datatype::kBfloat16, Datatype::kFloat32, Datatype::kFloat64,
                         Datatype::kFloat8E4m3, Datatype::kFloat8E5m2}) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      if (!is_defined(dtype, static_cast<ReduceOp>(op))) continue;
      std::size_t count = 64;
      std::vector<std::byte> result(count * size_of(dtype));
      for (std::size_t i = 0; i < count; ++i) {
        encode_float(dtype, std::numeric_limits<double>::quiet_NaN(), result.data() + i * size_of(dtype));
      }
      Reference reference({dtype, static_cast<ReduceOp>(op), 3, 0, seed}, count);
      EXPECT_EQ(reference.check(result.data(), 0, count).elements, count) << to_string(dtype);
    }
  }
}

TEST(Reference, ContributionsDifferBetweenRanksAndSeeds) {
  std::uint64_t seed = fresh_seed();
  std::size_t count = 1009;
  auto contribution = [&](Datatype dtype, ReduceOp op, int rank, std::uint64_t from) {
    std::vector<std::byte> bytes(count * size_of(dtype));
    Reference({dtype, op, 4, rank, from}, count).fill(bytes.data(), 0, count);
    return bytes;
  };
  for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      auto type = static_cast<Datatype>(dtype);
      auto how = static_cast<ReduceOp>(op);
      if (!is_defined(type, how)) continue;
      EXPECT_NE(contribution(type, how, 0, seed), contribution(type, how, 1, seed));
      EXPECT_NE(contribution(type, how, 0, seed), contribution(type, how, 0, seed + 1));
    }
  }
}

TEST(Reference, RepeatsBeyondItsPeriodAndFindsWhatIsWrongThere) {
  std::size_t count = 2 * Reference::kPeriod + 1000;
  Reference reference({Datatype::kInt32, ReduceOp::kSum, 1, 0, fresh_seed()}, count);
  std::vector<std::int32_t> values(count);
  reference.fill(reinterpret_cast<std::byte*>(values.data()), 0, count);
  EXPECT_EQ(reference.check(reinterpret_cast<std::byte*>(values.data()), 0, count).elements, 0u);
  ++values[count - 1];
  ++values[Reference::kPeriod];
  Wrong wrong = reference.check(reinterpret_cast<std::byte*>(values.data()), 0, count);
  EXPECT_EQ(wrong.elements, 2u);
  EXPECT_NE(wrong.first.find("element " + std::to_string(Reference::kPeriod) + ":"), std::string::npos);
  // Data that is whole but 4096 elements off.
  reference.fill(reinterpret_cast<std::byte*>(values.data()), 0, count);
  std::rotate(values.begin(), values.begin() + 4096, values.end());
  EXPECT_GT(reference.check(reinterpret_cast<std::byte*>(values.data()), 0, count).elements, count * 9 / 10);
}

TEST(Reference, GeneralValuesAreJudgedByABound) {
  std::size_t count = 1000;
  std::uint64_t seed = fresh_seed();
  std::vector<float> sum(count);
  std::vector<float> next(count);
  for (int rank = 0; rank < 8; ++rank) {
    Reference({Datatype::kFloat32, ReduceOp::kSum, 8, rank, seed}, count)
        .fill(reinterpret_cast<std::byte*>(next.data()), 0, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  Reference reference({Datatype::kFloat32, ReduceOp::kSum, 8, 0, seed}, count);
  auto* bytes = reinterpret_cast<std::byte*>(sum.data());
  EXPECT_EQ(reference.check(bytes, 0, count).elements, 0u);
  sum[900] += 1e-3f;
  Wrong wrong = reference.check(bytes, 0, count);
  EXPECT_EQ(wrong.elements, 1u);
  EXPECT_NE(wrong.first.find("element 900: "), std::string::npos) << wrong.first;
  EXPECT_NE(wrong.first.find(" within "), std::string::npos) << wrong.first;
}

TEST(Reference, ABlockIsJudgedByWhereItBelongs) {
  std::uint64_t seed = fresh_seed();
  std::size_t total = 3 * Reference::kPeriod;
  Reference reference({Datatype::kInt32, ReduceOp::kSum, 1, 0, seed}, total);
  std::size_t count = Reference::kPeriod + 10;
  std::vector<std::int32_t> block(count);
  auto* bytes = reinterpret_cast<std::byte*>(block.data());
  for (std::size_t first : {std::size_t{0}, std::size_t{1}, Reference::kPeriod - 3, total - count}) {
    reference.fill(bytes, first, count);
    EXPECT_EQ(reference.check(bytes, first, count).elements, 0u) << first;
    EXPECT_EQ(reference.check_contribution(bytes, first, count).elements, 0u) << first;
    EXPECT_GT(reference.check(bytes, first + 1, count).elements, count * 9 / 10) << first;
    ++block[7];
    EXPECT_EQ(reference.check_contribution(bytes, first, count).elements, 1u) << first;
    EXPECT_EQ(reference.check(bytes, first, count).first.substr(0, 10), "element 7:") << first;
  }
}

TEST(Reference, NothingToCheckIsRight) {
  Reference reference({Datatype::kFloat64, ReduceOp::kAvg, 4, 2, 1}, 0);
  reference.fill(nullptr, 0, 0);
  EXPECT_EQ(reference.check(nullptr, 0, 0).elements, 0u);
}

}  // namespace
}  // namespace foldcast::tools
