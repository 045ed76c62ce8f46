#include "kernels/wire_format.h"

#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/conversions.h"
#include "tests/kernels/data.h"

namespace foldcast::kernels::test {
namespace {

using Floats = std::vector<float>;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// What a value may lose, by the header's word, in a block whose largest finite magnitude is `largest`.
double allowed_error(WireFormat format, double value, double largest) {
  const double size = std::fabs(value);
  switch (format) {
    case WireFormat::kBfloat16:
      return std::max(size * 0x1p-8, 0x1p-134);
    case WireFormat::kFloat16:
      return std::max(size * 0x1p-11, 0x1p-25);
    case WireFormat::kFloat8:
      return std::max({size / 16, largest * 0x1p-17, 0x1p-137});
    case WireFormat::kExact:
      break;
  }
  return 0;
}

/// The kinds of data that rounding or scaling could get wrong.
enum class Data { kNormal, kAnyBits, kSubnormal, kWideRange, kTies, kNearPowers, kSparse, kHuge };
constexpr Data kEveryData[] = {Data::kNormal, Data::kAnyBits,    Data::kSubnormal, Data::kWideRange,
                               Data::kTies,   Data::kNearPowers, Data::kSparse,    Data::kHuge};

float make(Data data, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const double unit = static_cast<double>(bits & 0xFFFF'FFFF) / 0x8000'0000 - 1.0;
  const int exponent = static_cast<int>(bits >> 40 & 63);
  switch (data) {
    case Data::kNormal:
      return static_cast<float>(unit);
    case Data::kAnyBits:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case Data::kSubnormal:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) & 0x80FF'FFFF);
    case Data::kWideRange:
      return static_cast<float>(std::ldexp(unit, exponent - 32));
    case Data::kTies:
      return static_cast<float>(std::ldexp(static_cast<double>(bits & 63) + 0.5, exponent - 32));
    case Data::kNearPowers:
      return std::nextafter(std::ldexp(1.0F, exponent / 8), (bits & 1) != 0 ? 0.0F : 1e30F);
    case Data::kSparse:
      return (bits & 15) != 0 ? (bits & 16 ? 0.0F : -0.0F) : static_cast<float>(unit);
    case Data::kHuge:
      return static_cast<float>(unit * std::numeric_limits<float>::max());
  }
  return 0;
}

class WireFormatTest : public testing::TestWithParam<WireFormat> {
 protected:
  Bytes encoded(const Floats& values) {
    Bytes wire(wire_bytes(GetParam(), values.size()));
    encode(GetParam(), wire.data(), values.data(), values.size());
    return wire;
  }
  Floats decoded(const Bytes& wire, std::size_t count) {
    Floats values(count);
    decode(GetParam(), values.data(), wire.data(), count);
    return values;
  }
};

INSTANTIATE_TEST_SUITE_P(EveryFormat, WireFormatTest,
                         testing::Values(WireFormat::kExact, WireFormat::kBfloat16, WireFormat::kFloat16,
                                         WireFormat::kFloat8),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(WireFormatTest, IdempotentWithinBoundsAndTheSameOnEveryTarget) {
  std::mt19937_64 random = fresh_generator();
  const std::size_t granule = wire_granule(GetParam());
  for (const Data data : kEveryData) {
    for (const std::size_t count : {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 997, 10'007}) {
      Floats values(count);
      for (float& value : values) value = make(data, random);
      Bytes first;
      on_every_target([&] {
        const Bytes wire = encoded(values);
        const Floats rounded = decoded(wire, count);
        ASSERT_EQ(encoded(rounded), wire) << "encoding the decoded differs";
        Floats in_place = values;
        Bytes again(wire.size());
        encode_and_round(GetParam(), again.data(), in_place.data(), count);
        ASSERT_EQ(again, wire);
        ASSERT_TRUE(same_bits(in_place, rounded)) << "encode_and_round leaves other values than decode gives";
        if (first.empty()) first = wire;
        ASSERT_EQ(wire, first) << "targets differ";
        for (std::size_t i = 0; i < count; ++i) {
          if (!std::isfinite(values[i])) {
            ASSERT_EQ(std::isnan(values[i]), std::isnan(rounded[i]));
            ASSERT_TRUE(std::isnan(values[i]) || values[i] == rounded[i]);
            continue;
          }
          if (std::isinf(rounded[i])) {
            ASSERT_NE(GetParam(), WireFormat::kFloat8);
            ASSERT_GE(std::fabs(values[i]), GetParam() == WireFormat::kFloat16 ? 65520.0F : 0x1.FFp127F);
            continue;
          }
          double largest = 0;
          for (std::size_t k = i / granule * granule; k < std::min(count, (i / granule + 1) * granule); ++k) {
            if (std::isfinite(values[k])) largest = std::max(largest, std::fabs(double{values[k]}));
          }
          ASSERT_LE(std::fabs(double{values[i]} - double{rounded[i]}), allowed_error(GetParam(), values[i], largest))
              << std::hexfloat << values[i] << " became " << rounded[i] << " beside " << largest;
          ASSERT_EQ(std::signbit(values[i]), std::signbit(rounded[i]));
        }
      });
      if (HasFatalFailure()) FAIL() << "data " << static_cast<int>(data) << ", " << count << " values";
    }
  }
}

TEST_P(WireFormatTest, AnyAlignmentAndNothingBeyondTheEnd) {
  std::mt19937_64 random = fresh_generator();
  for (const std::size_t count : {1, 31, 32, 33, 100, 257}) {
    Floats values(count);
    for (float& value : values) value = make(Data::kNormal, random);
    const Bytes wire = encoded(values);
    const Floats rounded = decoded(wire, count);
    on_every_target([&] {
      for (const std::size_t shift : {1, 2, 3, 5}) {
        Bytes floats(count * 4 + shift + 8, std::byte{0xA5});
        Bytes bytes(wire.size() + shift + 8, std::byte{0xA5});
        auto* const at = reinterpret_cast<float*>(floats.data() + shift);
        std::memcpy(floats.data() + shift, values.data(), count * 4);
        encode(GetParam(), bytes.data() + shift, at, count);
        ASSERT_EQ(std::memcmp(bytes.data() + shift, wire.data(), wire.size()), 0);
        ASSERT_EQ(std::memcmp(floats.data() + shift, values.data(), count * 4), 0) << "encode changed its input";
        encode_and_round(GetParam(), bytes.data() + shift, at, count);
        ASSERT_EQ(std::memcmp(bytes.data() + shift, wire.data(), wire.size()), 0);
        ASSERT_EQ(std::memcmp(floats.data() + shift, rounded.data(), count * 4), 0);
        ASSERT_EQ(bytes[shift + wire.size()], std::byte{0xA5});
        std::fill(floats.begin(), floats.end(), std::byte{0x5A});
        decode(GetParam(), at, bytes.data() + shift, count);
        ASSERT_EQ(std::memcmp(floats.data() + shift, rounded.data(), count * 4), 0);
        ASSERT_EQ(floats[shift + count * 4], std::byte{0x5A});
        ASSERT_EQ(floats[shift - 1], std::byte{0x5A});
      }
    });
  }
}

TEST_P(WireFormatTest, PartsThatBeginAtAGranuleAreTheWhole) {
  std::mt19937_64 random = fresh_generator();
  const std::size_t granule = wire_granule(GetParam());
  Floats values(granule * 7 + granule / 2);
  for (float& value : values) value = make(Data::kWideRange, random);
  Bytes parts;
  for (std::size_t at = 0; at < values.size(); at += 3 * granule) {
    const std::size_t end = std::min(values.size(), at + 3 * granule);
    const auto begin = values.begin();
    const Bytes part =
        encoded(Floats(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end)));
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, encoded(values));
}

/// What arrives may be damaged: any bytes at all decode to something, the same on every target.
TEST_P(WireFormatTest, AnyBytesDecodeAlikeOnEveryTarget) {
  std::mt19937_64 random = fresh_generator();
  constexpr std::size_t kCount = 32 * 256 + 17;
  Bytes wire(wire_bytes(GetParam(), kCount));
  for (std::byte& byte : wire) byte = static_cast<std::byte>(random());
  if (GetParam() == WireFormat::kFloat8) {
    for (std::size_t block = 0; block < 256; ++block) wire[block * kBlockBytes] = static_cast<std::byte>(block);
  }
  Floats first;
  on_every_target([&] {
    const Floats values = decoded(wire, kCount);
    if (first.empty()) first = values;
    for (std::size_t i = 0; i < kCount; ++i) {
      if (std::isnan(first[i])) {
        ASSERT_TRUE(std::isnan(values[i]));
      } else {
        ASSERT_EQ(bits_of(values[i]), bits_of(first[i])) << i;
      }
    }
  });
}

TEST(WireBytes, CountsBlocks) {
  EXPECT_EQ(wire_bytes(WireFormat::kExact, 33), 132U);
  EXPECT_EQ(wire_bytes(WireFormat::kBfloat16, 33), 66U);
  EXPECT_EQ(wire_bytes(WireFormat::kFloat16, 33), 66U);
  EXPECT_EQ(wire_bytes(WireFormat::kFloat8, 0), 0U);
  EXPECT_EQ(wire_bytes(WireFormat::kFloat8, 1), 2U);
  EXPECT_EQ(wire_bytes(WireFormat::kFloat8, 32), 33U);
  EXPECT_EQ(wire_bytes(WireFormat::kFloat8, 33), 35U);
  EXPECT_EQ(wire_bytes(WireFormat::kFloat8, std::uint64_t{1} << 40), (std::uint64_t{33} << 40) / 32);
}

/// Vectors against the plain scalars, with every largest exponent, and infinities and NaNs among the numbers.
TEST(Float8Blocks, VectorsEqualScalars) {
  std::mt19937_64 random = fresh_generator();
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (int round = 0; round < 40; ++round) {
      float values[kBlockValues];
      for (float& value : values) {
        const auto smaller = static_cast<std::uint32_t>(random() % 22);
        const std::uint32_t field = exponent > smaller ? exponent - smaller : 0;
        value = std::bit_cast<float>((static_cast<std::uint32_t>(random()) & 0x807F'FFFF) | field << 23);
      }
      if (round % 10 == 3) values[random() % kBlockValues] = std::numeric_limits<float>::infinity();
      if (round % 10 == 4) values[random() % kBlockValues] = -std::numeric_limits<float>::infinity();
      if (round % 10 == 5) values[random() % kBlockValues] = std::numeric_limits<float>::quiet_NaN();
      std::byte expected[kBlockBytes];
      float rounded[kBlockValues];
      encode_block(expected, values, rounded, kBlockValues);
      on_every_target([&] {
        std::byte wire[kBlockBytes];
        float back[kBlockValues];
        encode(WireFormat::kFloat8, wire, values, kBlockValues);
        decode(WireFormat::kFloat8, back, wire, kBlockValues);
        ASSERT_EQ(std::memcmp(wire, expected, kBlockBytes), 0) << "exponent " << exponent;
        ASSERT_EQ(std::memcmp(back, rounded, sizeof(back)), 0) << "exponent " << exponent;
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Float8Blocks, TheLargestStaysInItsBinade) {
  for (int exponent = -119; exponent <= 127; ++exponent) {
    Floats values = {std::nextafter(std::ldexp(2.0F, exponent), 0.0F), std::ldexp(1.0F, exponent)};
    if (exponent == 127) values[0] = std::numeric_limits<float>::max();
    Bytes wire(3);
    encode_and_round(WireFormat::kFloat8, wire.data(), values.data(), 2);
    EXPECT_EQ(values[0], std::ldexp(1.875F, exponent));
    EXPECT_EQ(values[1], std::ldexp(1.0F, exponent));
    EXPECT_EQ(wire[0], static_cast<std::byte>(exponent + 120));
  }
}

}  // namespace
}  // namespace foldcast::kernels::test
