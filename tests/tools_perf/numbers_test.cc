#include "tools/foldcast/perf_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace foldcast::tools {
namespace {

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

TEST(Numbers, EightBitFloatsRoundTrip) {
  for (Datatype dtype : {Datatype::kFloat8E4m3, Datatype::kFloat8E5m2}) {
    int infinities = 0;
    int nans = 0;
    for (unsigned bits = 0; bits < 256; ++bits) {
      auto in = static_cast<std::uint8_t>(bits);
      double value = decode_float(dtype, reinterpret_cast<std::byte*>(&in));
      infinities += std::isinf(value) ? 1 : 0;
      nans += std::isnan(value) ? 1 : 0;
      std::uint8_t out = 0;
      encode_float(dtype, value, reinterpret_cast<std::byte*>(&out));
      if (!std::isnan(value)) {
        ASSERT_EQ(in, out) << to_string(dtype);
      }
    }
    EXPECT_EQ(infinities, dtype == Datatype::kFloat8E4m3 ? 0 : 2);
    EXPECT_EQ(nans, dtype == Datatype::kFloat8E4m3 ? 2 : 6);
  }
}

TEST(Numbers, EightBitFloatsHaveTheLimitsOfTheirFormat) {
  auto rounded = [](Datatype dtype, double value) {
    std::byte element;
    encode_float(dtype, value, &element);
    return decode_float(dtype, &element);
  };
  EXPECT_EQ(rounded(Datatype::kFloat8E4m3, 448), 448);
  EXPECT_EQ(rounded(Datatype::kFloat8E4m3, 463), 448);
  EXPECT_TRUE(std::isnan(rounded(Datatype::kFloat8E4m3, 480)));
  EXPECT_EQ(rounded(Datatype::kFloat8E4m3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(rounded(Datatype::kFloat8E4m3, 0x1p-10), 0) << "a tie goes to even";
  EXPECT_EQ(rounded(Datatype::kFloat8E4m3, 17), 16);
  EXPECT_EQ(rounded(Datatype::kFloat8E4m3, 19), 20);
  EXPECT_EQ(rounded(Datatype::kFloat8E5m2, 57344), 57344);
  EXPECT_TRUE(std::isinf(rounded(Datatype::kFloat8E5m2, 61440)));
  EXPECT_EQ(rounded(Datatype::kFloat8E5m2, -0x1p-16), -0x1p-16);
}

}  // namespace
}  // namespace foldcast::tools
