#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include <array>

#include "tests/kernels/data.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {
namespace {

/// The bit patterns that matter of one float format, from its field widths.
struct Patterns {
  explicit Patterns(Datatype dtype)
      : size(size_of(dtype)),
        mantissa_bits(dtype == Datatype::kFloat16      ? 10
                      : dtype == Datatype::kBfloat16   ? 7
                      : dtype == Datatype::kFloat32    ? 23
                      : dtype == Datatype::kFloat8E5m2 ? 2
                                                       : 52) {
    sign = std::uint64_t{1} << (size * 8 - 1);
    least_normal = std::uint64_t{1} << mantissa_bits;
    infinity = (sign - 1) & ~(least_normal - 1);
    quiet_nan = infinity | (least_normal >> 1);
    one = (infinity >> 1) & ~(least_normal - 1);
  }

  std::size_t size;
  int mantissa_bits;
  std::uint64_t sign, least_normal, infinity, quiet_nan, one;
};

class SpecialValuesTest : public testing::TestWithParam<Datatype> {
 protected:
  const Patterns p_{GetParam()};

  /// One element alone, and the same amid a whole run of vectors: the two must agree.
  std::uint64_t combine(ReduceOp op, std::uint64_t a, std::uint64_t b) {
    constexpr std::size_t kMany = 300;
    Bytes left(kMany * p_.size);
    Bytes right(kMany * p_.size);
    for (std::size_t i = 0; i < kMany; ++i) {
      std::memcpy(left.data() + i * p_.size, &a, p_.size);
      std::memcpy(right.data() + i * p_.size, &b, p_.size);
    }
    std::uint64_t alone = 0;
    Bytes single(p_.size);
    reduce(op, GetParam(), single.data(), left.data(), right.data(), 1);
    reduce(op, GetParam(), left.data(), left.data(), right.data(), kMany);
    std::memcpy(&alone, single.data(), p_.size);
    for (std::size_t i = 0; i < kMany; ++i) {
      std::uint64_t amid = 0;
      std::memcpy(&amid, left.data() + i * p_.size, p_.size);
      EXPECT_EQ(amid, alone) << "element " << i;
    }
    return alone;
  }

  std::uint64_t negative(std::uint64_t bits) const { return bits | p_.sign; }
};

INSTANTIATE_TEST_SUITE_P(EveryFloat, SpecialValuesTest,
                         testing::Values(Datatype::kFloat16, Datatype::kBfloat16, Datatype::kFloat32,
                                         Datatype::kFloat64, Datatype::kFloat8E5m2),
                         datatype_name);

TEST_P(SpecialValuesTest, NanWinsAndIsTheOneQuietNan) {
  const std::array nans = {p_.quiet_nan, negative(p_.quiet_nan), p_.infinity | 1, negative(p_.infinity | 1),
                           p_.sign - 1,  negative(p_.sign - 1)};
  const std::array others = {std::uint64_t{0},      p_.sign,          p_.one,       negative(p_.one), p_.infinity,
                             negative(p_.infinity), std::uint64_t{1}, p_.quiet_nan, p_.infinity | 1};
  on_every_target([&] {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg}) {
      for (const std::uint64_t nan : nans) {
        for (const std::uint64_t other : others) {
          EXPECT_EQ(combine(op, nan, other), p_.quiet_nan) << to_string(op) << std::hex << " " << nan << " " << other;
          EXPECT_EQ(combine(op, other, nan), p_.quiet_nan) << to_string(op) << std::hex << " " << other << " " << nan;
        }
      }
    }
  });
}

TEST_P(SpecialValuesTest, NegativeZeroIsLessThanPositiveZero) {
  const std::uint64_t plus = 0;
  const std::uint64_t minus = p_.sign;
  on_every_target([&] {
    EXPECT_EQ(combine(ReduceOp::kMin, plus, minus), minus);
    EXPECT_EQ(combine(ReduceOp::kMin, minus, plus), minus);
    EXPECT_EQ(combine(ReduceOp::kMin, minus, minus), minus);
    EXPECT_EQ(combine(ReduceOp::kMin, plus, plus), plus);
    EXPECT_EQ(combine(ReduceOp::kMax, plus, minus), plus);
    EXPECT_EQ(combine(ReduceOp::kMax, minus, plus), plus);
    EXPECT_EQ(combine(ReduceOp::kMax, minus, minus), minus);
    EXPECT_EQ(combine(ReduceOp::kMax, plus, plus), plus);
    EXPECT_EQ(combine(ReduceOp::kSum, minus, minus), minus);
    EXPECT_EQ(combine(ReduceOp::kSum, minus, plus), plus);
    EXPECT_EQ(combine(ReduceOp::kProd, minus, minus), plus);
  });
}

TEST_P(SpecialValuesTest, InfinitiesAndOverflow) {
  const std::uint64_t largest = p_.infinity - 1;
  on_every_target([&] {
    EXPECT_EQ(combine(ReduceOp::kSum, largest, largest), p_.infinity);
    EXPECT_EQ(combine(ReduceOp::kSum, negative(largest), negative(largest)), negative(p_.infinity));
    EXPECT_EQ(combine(ReduceOp::kProd, largest, negative(largest)), negative(p_.infinity));
    EXPECT_EQ(combine(ReduceOp::kSum, p_.infinity, largest), p_.infinity);
    EXPECT_EQ(combine(ReduceOp::kSum, p_.infinity, negative(p_.infinity)), p_.quiet_nan);
    EXPECT_EQ(combine(ReduceOp::kProd, p_.infinity, 0), p_.quiet_nan);
    EXPECT_EQ(combine(ReduceOp::kMin, p_.infinity, negative(p_.infinity)), negative(p_.infinity));
    EXPECT_EQ(combine(ReduceOp::kMax, p_.infinity, negative(p_.infinity)), p_.infinity);
  });
}

TEST_P(SpecialValuesTest, SubnormalsAreNotFlushed) {
  on_every_target([&] {
    EXPECT_EQ(combine(ReduceOp::kSum, 1, 1), 2U);
    EXPECT_EQ(combine(ReduceOp::kSum, p_.least_normal - 1, 1), p_.least_normal);
    EXPECT_EQ(combine(ReduceOp::kSum, p_.least_normal, negative(1)), p_.least_normal - 1);
    EXPECT_EQ(combine(ReduceOp::kProd, 1, p_.one), 1U);
    EXPECT_EQ(combine(ReduceOp::kMin, 1, 2), 1U);
    EXPECT_EQ(combine(ReduceOp::kMax, negative(1), negative(2)), negative(1));
  });
}

TEST(HalfAccumulation, RoundsOnceAfterAllInputs) {
  // 2048 + 1 is a tie that rounds back to 2048, so rounding after each input would lose every one of the ones.
  const std::uint16_t large = 0x6800;
  const std::uint16_t one = 0x3C00;
  const std::byte* const inputs[] = {reinterpret_cast<const std::byte*>(&large),
                                     reinterpret_cast<const std::byte*>(&one),
                                     reinterpret_cast<const std::byte*>(&one)};
  on_every_target([&] {
    std::uint16_t sum = 0;
    reduce_n(ReduceOp::kSum, Datatype::kFloat16, reinterpret_cast<std::byte*>(&sum), inputs, 1);
    EXPECT_EQ(sum, 0x6801);  // 2050
  });
}

TEST(HalfAccumulation, SumMayOverflowOnTheWay) {
  const std::uint16_t largest = 0x7BFF;
  const std::uint16_t least = 0xFBFF;
  const std::byte* const inputs[] = {reinterpret_cast<const std::byte*>(&largest),
                                     reinterpret_cast<const std::byte*>(&largest),
                                     reinterpret_cast<const std::byte*>(&least)};
  on_every_target([&] {
    std::uint16_t sum = 0;
    reduce_n(ReduceOp::kSum, Datatype::kFloat16, reinterpret_cast<std::byte*>(&sum), inputs, 1);
    EXPECT_EQ(sum, largest);
  });
}

}  // namespace
}  // namespace foldcast::kernels::test
