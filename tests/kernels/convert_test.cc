#include "kernels/convert.h"

#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include <cmath>
#include <vector>

#include "kernels/formats.h"
#include "tests/kernels/data.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {
namespace {

/// A small float as the tests see it: its bits in the lower part of 32.
struct SmallFloat {
  Datatype dtype;
  double (*decode)(std::uint32_t);
  std::uint32_t (*encode)(double);
  float (*widen)(std::uint32_t);
  std::uint32_t (*narrow)(float);

  std::size_t size() const { return size_of(dtype); }
  std::uint32_t codes() const { return 1U << (8 * size()); }
};

void PrintTo(const SmallFloat& format, std::ostream* out) { *out << to_string(format.dtype); }

const SmallFloat kFormats[] = {
    {Datatype::kFloat16, [](std::uint32_t bits) { return decode_float(bits, 5, 10); },
     [](double value) { return encode_float(value, 5, 10); },
     [](std::uint32_t bits) { return float_from_half(static_cast<std::uint16_t>(bits)); },
     [](float value) { return std::uint32_t{half_from_float(value)}; }},
    {Datatype::kBfloat16, [](std::uint32_t bits) { return decode_float(bits, 8, 7); },
     [](double value) { return encode_float(value, 8, 7); },
     [](std::uint32_t bits) { return float_from_bfloat16(static_cast<std::uint16_t>(bits)); },
     [](float value) { return std::uint32_t{bfloat16_from_float(value)}; }},
    {Datatype::kFloat8E4m3, decode_e4m3, encode_e4m3,
     [](std::uint32_t bits) { return float_from_e4m3(static_cast<std::uint8_t>(bits)); },
     [](float value) { return std::uint32_t{e4m3_from_float(value)}; }},
    {Datatype::kFloat8E5m2, [](std::uint32_t bits) { return decode_float(bits, 5, 2); },
     [](double value) { return encode_float(value, 5, 2); },
     [](std::uint32_t bits) { return float_from_e5m2(static_cast<std::uint8_t>(bits)); },
     [](float value) { return std::uint32_t{e5m2_from_float(value)}; }},
};

class ConvertTest : public testing::TestWithParam<SmallFloat> {
 protected:
  /// Narrows by scalars and, on each target and at an odd address, by vectors.
  void check_narrowing(const std::vector<float>& values, const std::vector<std::uint32_t>& expected) {
    const SmallFloat& format = GetParam();
    for (std::size_t i = 0; i < values.size(); ++i) {
      // The 16-bit scalars keep the payload of a NaN; vectors, and the tests' reference, do not.
      if (std::isnan(values[i])) continue;
      ASSERT_EQ(format.narrow(values[i]), expected[i]) << std::hexfloat << values[i];
    }
    Bytes shifted(values.size() * sizeof(float) + 1);
    std::memcpy(shifted.data() + 1, values.data(), values.size() * sizeof(float));
    on_every_target([&] {
      Bytes narrowed(values.size() * format.size() + 1);
      narrow(format.dtype, narrowed.data() + 1, reinterpret_cast<const float*>(shifted.data() + 1), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, narrowed.data() + 1 + i * format.size(), format.size());
        ASSERT_EQ(bits, expected[i]) << std::hexfloat << values[i];
      }
    });
  }
};

INSTANTIATE_TEST_SUITE_P(EverySmallFloat, ConvertTest, testing::ValuesIn(kFormats),
                         [](const auto& tested) { return std::string(to_string(tested.param.dtype)); });

TEST_P(ConvertTest, EveryCodeWidensExactlyInEveryLane) {
  const SmallFloat& format = GetParam();
  // Beginning at each of the first elements, so that every code passes through every lane.
  Bytes codes(format.codes() * format.size() + 64 * format.size());
  for (std::size_t i = 0; i < codes.size() / format.size(); ++i) {
    std::memcpy(codes.data() + i * format.size(), &i, format.size());
  }
  on_every_target([&] {
    for (std::size_t first = 0; first < 64; first += format.size() == 1 ? 1 : 13) {
      std::vector<float> wide(format.codes());
      widen(format.dtype, wide.data(), codes.data() + first * format.size(), wide.size());
      for (std::uint32_t i = 0; i < wide.size(); ++i) {
        const auto code = static_cast<std::uint32_t>(i + first) % format.codes();
        const double exact = format.decode(code);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(wide[i])) << std::hex << code;
          ASSERT_TRUE(std::isnan(format.widen(code))) << std::hex << code;
          continue;
        }
        const auto exact_bits = std::bit_cast<std::uint32_t>(static_cast<float>(exact));
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), exact_bits) << std::hex << code;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(format.widen(code)), exact_bits) << std::hex << code;
      }
    }
  });
}

TEST_P(ConvertTest, NarrowsAroundEveryBoundary) {
  const SmallFloat& format = GetParam();
  std::vector<float> values;
  std::vector<std::uint32_t> expected;
  const auto add = [&](std::uint32_t bits) {
    values.push_back(std::bit_cast<float>(bits));
    expected.push_back(format.encode(values.back()));
  };
  // Each number and each midpoint between neighbours, with the floats next to them; both signs.
  const std::uint32_t sign = format.codes() / 2;
  for (std::uint32_t code = 0; code + 1 < sign; ++code) {
    const double low = format.decode(code);
    const double high = format.decode(code + 1);
    if (!std::isfinite(low)) break;
    const double step = code == 0 ? high : low - format.decode(code - 1);
    const double middle = std::isfinite(high) ? (low + high) / 2 : low + step / 2;
    for (const double at : {low, middle}) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(at));
      for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
        add(near & 0x7FFF'FFFF);
        add(near | 0x8000'0000);
      }
    }
  }
  check_narrowing(values, expected);
}

TEST_P(ConvertTest, NarrowsEveryExponentAndRandomBits) {
  const SmallFloat& format = GetParam();
  std::mt19937_64 random = fresh_generator();
  std::vector<float> values;
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 300'007; ++i) {
    // All 512 signs and exponents in turn: with a mantissa of zeros, of ones, at random.
    std::uint32_t bits = (i % 512) << 23;
    if (i / 512 == 1) bits |= 0x7F'FFFF;
    if (i / 512 > 1) bits |= static_cast<std::uint32_t>(random()) & 0x7F'FFFF;
    values.push_back(std::bit_cast<float>(bits));
    expected.push_back(format.encode(values.back()));
  }
  check_narrowing(values, expected);
}

TEST_P(ConvertTest, EveryTailIsWrittenAndNothingBeyond) {
  const SmallFloat& format = GetParam();
  std::mt19937_64 random = fresh_generator();
  for (std::size_t count = 0; count < 150; ++count) {
    std::vector<float> values(count);
    Bytes expected(count * format.size() + 8, std::byte{0xA5});
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = static_cast<std::uint32_t>(random()) % (format.codes() / 2 - format.codes() / 8);
      values[i] = static_cast<float>(format.decode(code));
      std::memcpy(expected.data() + i * format.size(), &code, format.size());
    }
    on_every_target([&] {
      Bytes narrowed(expected.size(), std::byte{0xA5});
      narrow(format.dtype, narrowed.data(), values.data(), count);
      ASSERT_EQ(narrowed, expected);
      std::vector<float> wide(count + 1, -1.5F);
      widen(format.dtype, wide.data(), narrowed.data(), count);
      ASSERT_TRUE(std::equal(values.begin(), values.end(), wide.begin()));
      ASSERT_EQ(wide.back(), -1.5F);
    });
    if (HasFatalFailure()) return;
  }
}

/// Every pair of the 8-bit floats under every op: all that a reduction of two inputs can meet.
TEST(Float8, EveryPairUnderEveryOp) {
  for (const Datatype dtype : {Datatype::kFloat8E4m3, Datatype::kFloat8E5m2}) {
    Bytes a(65536);
    Bytes b(65536);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<std::byte>(i);
      b[i] = static_cast<std::byte>(i >> 8);
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      const Bytes expected = reference_fold(op, dtype, {a, b});
      on_every_target([&] {
        Bytes result(a.size());
        reduce(op, dtype, result.data(), a.data(), b.data(), a.size());
        ASSERT_EQ(result, expected) << to_string(dtype) << " " << to_string(op);
      });
    }
  }
}

TEST(Float8, OverflowIsSeen) {
  EXPECT_EQ(e4m3_from_float(448), 0x7E);
  EXPECT_EQ(e4m3_from_float(464), 0x7E);
  EXPECT_EQ(e4m3_from_float(464.1F), 0x7F);
  EXPECT_EQ(e4m3_from_float(-INFINITY), 0x7F);
  EXPECT_EQ(e5m2_from_float(57344), 0x7B);
  EXPECT_EQ(e5m2_from_float(61439.9F), 0x7B);
  EXPECT_EQ(e5m2_from_float(-61440), 0xFC);
  EXPECT_EQ(e5m2_from_float(NAN), 0x7E);
}

}  // namespace
}  // namespace foldcast::kernels::test
