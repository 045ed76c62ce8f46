#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include <limits>

#include "tests/kernels/data.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {
namespace {

class DivideTest : public testing::TestWithParam<Datatype> {};

INSTANTIATE_TEST_SUITE_P(EveryDatatype, DivideTest, every_number(), datatype_name);

constexpr std::uint64_t kDivisors[] = {1,          2,
                                       3,          5,
                                       7,          8,
                                       64,         127,
                                       128,        255,
                                       256,        1000,
                                       32768,      65535,
                                       65536,      (1ULL << 31) - 1,
                                       1ULL << 31, (1ULL << 32) - 1,
                                       1ULL << 32, (1ULL << 32) + 1,
                                       1ULL << 63, std::numeric_limits<std::uint64_t>::max()};

/// Fresh data, beginning with the values next to zero and to both ends of the type.
Bytes values_with_extremes(Datatype dtype, std::size_t count, std::mt19937_64& random) {
  Bytes values = random_values(dtype, count, random);
  const std::size_t size = size_of(dtype);
  const std::uint64_t top = std::uint64_t{1} << (8 * size - 1);
  const std::uint64_t extremes[] = {0, 1, ~std::uint64_t{0}, top, top - 1, top + 1, 2, 3};
  for (std::size_t i = 0; i < std::min(std::size(extremes), count); ++i) {
    std::memcpy(values.data() + i * size, &extremes[i], size);
  }
  return values;
}

TEST_P(DivideTest, MatchesTheReferenceAtEveryOffset) {
  std::mt19937_64 random = fresh_generator();
  constexpr std::byte kPattern{0xA5};
  for (const std::uint64_t divisor : kDivisors) {
    for (const std::size_t count : {0, 1, 2, 3, 8, 15, 16, 17, 31, 63, 65, 1000}) {
      const Bytes values = values_with_extremes(GetParam(), count, random);
      const Bytes expected = reference_divide(GetParam(), values, divisor);
      on_every_target([&] {
        const std::size_t offset = random() % 64;
        Bytes memory(offset + values.size() + 64, kPattern);
        Bytes after = memory;
        std::copy(values.begin(), values.end(), memory.begin() + static_cast<std::ptrdiff_t>(offset));
        std::copy(expected.begin(), expected.end(), after.begin() + static_cast<std::ptrdiff_t>(offset));
        divide(GetParam(), memory.data() + offset, divisor, count);
        ASSERT_EQ(memory, after) << to_string(GetParam()) << " / " << divisor << ", " << count << " elements";
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(DivideIntegers, EverySixteenBitValueByEverySmallDivisor) {
  Bytes all(65536 * 2);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(all.data() + 2 * i, &bits, 2);
  }
  for (std::uint64_t divisor = 2; divisor <= 40; ++divisor) {
    for (const Datatype dtype : {Datatype::kInt16, Datatype::kUint16}) {
      Bytes values = all;
      divide(dtype, values.data(), divisor, 65536);
      ASSERT_EQ(values, reference_divide(dtype, all, divisor)) << to_string(dtype) << " / " << divisor;
    }
  }
}

TEST(DivideIntegers, RoundTowardZero) {
  std::int32_t values[] = {7, -7, 1, -1, std::numeric_limits<std::int32_t>::min()};
  divide(Datatype::kInt32, reinterpret_cast<std::byte*>(values), 2, 5);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], -3);
  EXPECT_EQ(values[2], 0);
  EXPECT_EQ(values[3], 0);
  EXPECT_EQ(values[4], std::numeric_limits<std::int32_t>::min() / 2);
}

}  // namespace
}  // namespace foldcast::kernels::test
