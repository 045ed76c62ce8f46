#include "tools/foldcast/perf_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "kernels/reducer.h"
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
    std::vector<std::byte> result(count * element());
    std::vector<std::byte> next(count * element());
    of(order[0], count, seed).fill(result.data());
    for (std::size_t i = 1; i < order.size(); ++i) {
      of(order[i], count, seed).fill(next.data());
      kernels::reduce(pairwise(op), dtype, result.data(), result.data(), next.data(), count);
    }
    if (op == ReduceOp::kAvg) kernels::divide(dtype, result.data(), static_cast<std::uint64_t>(ranks), count);
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
    Wrong wrong = reference.check(result.data());
    ASSERT_EQ(wrong.elements, 0u) << count << " elements; " << wrong.first;

    std::size_t at = random() % ((count * 3 + 3) / 4);  // an exact one
    std::size_t bit = random() % (8 * element());
    result[at * element() + bit / 8] ^= std::byte{1} << (bit % 8);
    wrong = reference.check(result.data());
    EXPECT_EQ(wrong.elements, 1u) << "bit " << bit << " of element " << at;
    EXPECT_NE(wrong.first.find("element " + std::to_string(at) + ":"), std::string::npos) << wrong.first;
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
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
  for (Datatype dtype : {Datatype::kFloat16, Datatype::kBfloat16, Datatype::kFloat32, Datatype::kFloat64}) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      std::size_t count = 64;
      std::vector<std::byte> result(count * size_of(dtype));
      for (std::size_t i = 0; i < count; ++i) {
        encode_float(dtype, std::numeric_limits<double>::quiet_NaN(), result.data() + i * size_of(dtype));
      }
      Reference reference({dtype, static_cast<ReduceOp>(op), 3, 0, seed}, count);
      EXPECT_EQ(reference.check(result.data()).elements, count) << to_string(dtype);
    }
  }
}

TEST(Reference, ContributionsDifferBetweenRanksAndSeeds) {
  std::uint64_t seed = fresh_seed();
  std::size_t count = 1009;
  auto contribution = [&](Datatype dtype, ReduceOp op, int rank, std::uint64_t from) {
    std::vector<std::byte> bytes(count * size_of(dtype));
    Reference({dtype, op, 4, rank, from}, count).fill(bytes.data());
    return bytes;
  };
  for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      auto type = static_cast<Datatype>(dtype);
      auto how = static_cast<ReduceOp>(op);
      EXPECT_NE(contribution(type, how, 0, seed), contribution(type, how, 1, seed));
      EXPECT_NE(contribution(type, how, 0, seed), contribution(type, how, 0, seed + 1));
    }
  }
}

TEST(Reference, RepeatsBeyondItsPeriodAndFindsWhatIsWrongThere) {
  std::size_t count = 2 * Reference::kPeriod + 1000;
  Reference reference({Datatype::kInt32, ReduceOp::kSum, 1, 0, fresh_seed()}, count);
  std::vector<std::int32_t> values(count);
  reference.fill(reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(reference.check(reinterpret_cast<std::byte*>(values.data())).elements, 0u);
  ++values[count - 1];
  ++values[Reference::kPeriod];
  Wrong wrong = reference.check(reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(wrong.elements, 2u);
  EXPECT_NE(wrong.first.find("element " + std::to_string(Reference::kPeriod) + ":"), std::string::npos);
  // Data that is whole but 4096 elements off.
  reference.fill(reinterpret_cast<std::byte*>(values.data()));
  std::rotate(values.begin(), values.begin() + 4096, values.end());
  EXPECT_GT(reference.check(reinterpret_cast<std::byte*>(values.data())).elements, count * 9 / 10);
}

TEST(Reference, GeneralValuesAreJudgedByABound) {
  std::size_t count = 1000;
  std::uint64_t seed = fresh_seed();
  std::vector<float> sum(count);
  std::vector<float> next(count);
  for (int rank = 0; rank < 8; ++rank) {
    Reference({Datatype::kFloat32, ReduceOp::kSum, 8, rank, seed}, count)
        .fill(reinterpret_cast<std::byte*>(next.data()));
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  Reference reference({Datatype::kFloat32, ReduceOp::kSum, 8, 0, seed}, count);
  auto* bytes = reinterpret_cast<std::byte*>(sum.data());
  EXPECT_EQ(reference.check(bytes).elements, 0u);
  sum[900] += 1e-3f;
  Wrong wrong = reference.check(bytes);
  EXPECT_EQ(wrong.elements, 1u);
  EXPECT_NE(wrong.first.find("element 900: "), std::string::npos) << wrong.first;
  EXPECT_NE(wrong.first.find(" within "), std::string::npos) << wrong.first;
}

TEST(Reference, NothingToCheckIsRight) {
  Reference reference({Datatype::kFloat64, ReduceOp::kAvg, 4, 2, 1}, 0);
  reference.fill(nullptr);
  EXPECT_EQ(reference.check(nullptr).elements, 0u);
}

TEST(Numbers, SixteenBitFloatsRoundTripAndRoundToEven) {
  for (Datatype dtype : {Datatype::kFloat16, Datatype::kBfloat16}) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
      auto in = static_cast<std::uint16_t>(bits);
      double value = decode_float(dtype, reinterpret_cast<std::byte*>(&in));
      std::uint16_t out = 0;
      encode_float(dtype, value, reinterpret_cast<std::byte*>(&out));
      if (std::isnan(value)) {
        std::uint16_t magnitude = out & 0x7fff;
        EXPECT_GT(magnitude, dtype == Datatype::kFloat16 ? 0x7c00 : 0x7f80);
      } else {
        ASSERT_EQ(in, out) << to_string(dtype);
      }
    }
  }
  auto half = [](double value) {
    std::uint16_t bits = 0;
    encode_float(Datatype::kFloat16, value, reinterpret_cast<std::byte*>(&bits));
    return bits;
  };
  EXPECT_EQ(half(2049), 0x6800);     // a tie goes to the even 2048
  EXPECT_EQ(half(2051), 0x6802);     // and to 2052
  EXPECT_EQ(half(65519), 0x7bff);    // the largest
  EXPECT_EQ(half(65520), 0x7c00);    // half way to 65536
  EXPECT_EQ(half(0x1p-24), 0x0001);  // the least
  EXPECT_EQ(half(0x1p-25), 0x0000);  // a tie goes to 0
  EXPECT_EQ(half(-0x1.8p-25), 0x8001);
  EXPECT_EQ(half(0x1.ffep-15), 0x0400);  // a subnormal that rounds up to the least normal
}

TEST(Numbers, IntegersExtendBySign) {
  std::uint8_t byte = 0xff;
  auto* element = reinterpret_cast<std::byte*>(&byte);
  EXPECT_EQ(decode_integer(Datatype::kInt8, element), ~std::uint64_t{0});
  EXPECT_EQ(decode_integer(Datatype::kUint8, element), 255u);
}

}  // namespace
}  // namespace foldcast::tools
