#include "kernels/formats.h"

#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include <cmath>
#include <limits>

#include "tests/kernels/data.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {
namespace {

struct Format {
  const char* name;
  Datatype dtype;
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);

  bool is_nan(std::uint16_t bits) const { return std::isnan(decode_float(bits, exponent_bits, mantissa_bits)); }
};

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class FormatsTest : public testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(Both, FormatsTest,
                         testing::Values(Format{"float16", Datatype::kFloat16, 5, 10, float_from_half, half_from_float},
                                         Format{"bfloat16", Datatype::kBfloat16, 8, 7, float_from_bfloat16,
                                                bfloat16_from_float}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(FormatsTest, EveryValueWidensExactlyAndComesBack) {
  const Format& format = GetParam();
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float wide = format.widen(bits);
    if (format.is_nan(bits)) {
      ASSERT_TRUE(std::isnan(wide)) << std::hex << i;
      const auto quiet = static_cast<std::uint16_t>(bits | (1U << (format.mantissa_bits - 1)));
      ASSERT_EQ(format.narrow(wide), quiet) << std::hex << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), decode_float(bits, format.exponent_bits, format.mantissa_bits))
        << std::hex << i;
    ASSERT_EQ(std::signbit(wide), (bits >> 15) != 0) << std::hex << i;
    ASSERT_EQ(format.narrow(wide), bits) << std::hex << i;
  }
}

TEST_P(FormatsTest, NarrowsToNearestEven) {
  const Format& format = GetParam();
  std::mt19937_64 random = fresh_generator();
  const auto check = [&](std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(format.is_nan(format.narrow(value))) << std::hex << bits;
    } else {
      ASSERT_EQ(format.narrow(value), encode_float(value, format.exponent_bits, format.mantissa_bits))
          << std::hex << bits;
    }
  };
  for (int i = 0; i < 1'000'000; ++i) check(static_cast<std::uint32_t>(random()));
  // The midpoint between each two neighbours, and the floats on either side of it.
  for (std::uint32_t i = 0; i < 65535; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (format.is_nan(bits) || format.is_nan(static_cast<std::uint16_t>(i + 1)) || i == 0x7FFF) continue;
    const double low = decode_float(bits, format.exponent_bits, format.mantissa_bits);
    double high = decode_float(i + 1, format.exponent_bits, format.mantissa_bits);
    if (std::isinf(high)) high = std::copysign(std::ldexp(1.0, 1 << (format.exponent_bits - 1)), high);
    const auto middle = std::bit_cast<std::uint32_t>(static_cast<float>((low + high) / 2));
    for (const std::uint32_t candidate : {middle - 1, middle, middle + 1}) check(candidate);
  }
}

/// Vector code widens, divides and narrows; two is a power of two, so that each step but the narrowing is exact and
/// the result is known from the float alone. Every value passes through every lane and both halves of a pack.
TEST_P(FormatsTest, VectorsAgreeWithScalarsOnEveryValue) {
  const Format& format = GetParam();
  on_every_target([&] {
    for (const std::uint64_t divisor : {2, 3, 1024}) {
      std::vector<std::uint16_t> values(65536);
      for (std::uint32_t i = 0; i < 65536; ++i) values[i] = static_cast<std::uint16_t>(i);
      divide(format.dtype, reinterpret_cast<std::byte*>(values.data()), divisor, values.size());
      for (std::uint32_t i = 0; i < 65536; ++i) {
        const float wide = format.widen(static_cast<std::uint16_t>(i)) / static_cast<float>(divisor);
        ASSERT_EQ(values[i], encode_float(wide, format.exponent_bits, format.mantissa_bits))
            << std::hex << i << " / " << divisor;
      }
    }
  });
}

/// Sums of a value and a fraction of its last place: all of the narrowing's cases, in vectors.
TEST_P(FormatsTest, VectorsNarrowRandomPairsToNearestEven) {
  const Format& format = GetParam();
  std::mt19937_64 random = fresh_generator();
  constexpr std::size_t kCount = 100'003;
  std::vector<std::uint16_t> a(kCount);
  std::vector<std::uint16_t> b(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t bits = random();
    a[i] = static_cast<std::uint16_t>(bits);
    const auto lower = static_cast<std::uint16_t>(((bits >> 16) & 15) << format.mantissa_bits);
    b[i] = static_cast<std::uint16_t>(a[i] > lower ? a[i] - lower : bits >> 32);
  }
  on_every_target([&] {
    std::vector<std::uint16_t> sum(kCount);
    reduce(ReduceOp::kSum, format.dtype, reinterpret_cast<std::byte*>(sum.data()),
           reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data()), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float wide = format.widen(a[i]) + format.widen(b[i]);
      ASSERT_EQ(sum[i], encode_float(wide, format.exponent_bits, format.mantissa_bits))
          << std::hex << a[i] << " + " << b[i];
    }
  });
}

}  // namespace
}  // namespace foldcast::kernels::test
