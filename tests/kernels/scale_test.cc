#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include "tests/kernels/data.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {
namespace {

class ScaleTest : public testing::TestWithParam<Datatype> {};

INSTANTIATE_TEST_SUITE_P(EveryNumber, ScaleTest, every_number(), datatype_name);

TEST_P(ScaleTest, MatchesTheReferenceInPlaceAndNot) {
  std::mt19937_64 random = fresh_generator();
  constexpr std::byte kPattern{0xA5};
  for (const std::size_t count : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 65, 127, 131, 1000, 4099}) {
    for (int round = 0; round < 8; ++round) {
      const Bytes values = random_values(GetParam(), count, random);
      const Bytes scalar = random_values(GetParam(), 1, random);
      const Bytes expected = reference_scale(GetParam(), values, scalar);
      on_every_target([&] {
        const auto offset = static_cast<std::ptrdiff_t>(random() % 64);
        Bytes memory(static_cast<std::size_t>(offset) + values.size() + 64, kPattern);
        Bytes after = memory;
        std::copy(expected.begin(), expected.end(), after.begin() + offset);
        // The scalar at an odd address.
        Bytes shifted(scalar.size() + 1);
        std::copy(scalar.begin(), scalar.end(), shifted.begin() + 1);
        scale(GetParam(), memory.data() + offset, values.data(), count, shifted.data() + 1);
        ASSERT_EQ(memory, after) << count << " elements, apart";
        std::copy(values.begin(), values.end(), memory.begin() + offset);
        scale(GetParam(), memory.data() + offset, memory.data() + offset, count, shifted.data() + 1);
        ASSERT_EQ(memory, after) << count << " elements, in place";
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CopyBytes, EverySizeAndAlignmentAndNothingElse) {
  std::mt19937_64 random = fresh_generator();
  constexpr std::byte kPattern{0xA5};
  Bytes source(9000);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  on_every_target([&] {
    for (std::size_t size = 0; size < 8192; size += size < 64 ? 1 : 1 + random() % 97) {
      const auto from = static_cast<std::ptrdiff_t>(random() % 80);
      const std::size_t to = random() % 80;
      Bytes memory(to + size + 80, kPattern);
      Bytes after = memory;
      std::copy_n(source.begin() + from, size, after.begin() + static_cast<std::ptrdiff_t>(to));
      copy_bytes(memory.data() + to, source.data() + from, size);
      ASSERT_EQ(memory, after) << size << " bytes from " << from << " to " << to;
    }
  });
}

/// Large enough to go past the caches, from and to any address.
TEST(Streaming, LargeTargetsHoldTheSameBits) {
  std::mt19937_64 random = fresh_generator();
  constexpr std::size_t kCount = (std::size_t{9} << 20) / sizeof(std::int32_t) + 5;
  Bytes a(kCount * 4 + 64);
  Bytes b(kCount * 4 + 64);
  for (Bytes* bytes : {&a, &b}) {
    for (std::size_t i = 0; i + 8 <= bytes->size(); i += 8) {
      const std::uint64_t value = random();
      std::memcpy(bytes->data() + i, &value, 8);
    }
  }
  for (const std::size_t shift : {0, 1, 4, 20}) {
    std::vector<std::int32_t> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::uint32_t x;
      std::uint32_t y;
      std::memcpy(&x, a.data() + shift + 4 * i, 4);
      std::memcpy(&y, b.data() + 4 * i, 4);
      expected[i] = static_cast<std::int32_t>(x + y);
    }
    on_every_target([&] {
      Bytes target(kCount * 4 + 64, std::byte{0x11});
      reduce(ReduceOp::kSum, Datatype::kInt32, target.data() + shift, a.data() + shift, b.data(), kCount);
      ASSERT_EQ(std::memcmp(target.data() + shift, expected.data(), kCount * 4), 0) << "shift " << shift;
      ASSERT_EQ(target[shift + kCount * 4], std::byte{0x11});
      copy_bytes(target.data() + shift, b.data(), kCount * 4);
      ASSERT_EQ(std::memcmp(target.data() + shift, b.data(), kCount * 4), 0) << "shift " << shift;
      ASSERT_EQ(target[shift + kCount * 4], std::byte{0x11});
    });
    if (HasFatalFailure()) return;
  }
}

TEST(Streaming, LargeSmallFloatsHoldTheSameBits) {
  std::mt19937_64 random = fresh_generator();
  for (const Datatype dtype : {Datatype::kFloat16, Datatype::kBfloat16, Datatype::kFloat8E5m2, Datatype::kBool}) {
    const std::size_t count = (std::size_t{8} << 20) / size_of(dtype) + 77;
    Bytes a(count * size_of(dtype));
    for (std::byte& byte : a) byte = static_cast<std::byte>(random());
    Bytes b(a.rbegin(), a.rend());
    Bytes whole(a.size());
    Bytes parts(a.size());
    reduce(ReduceOp::kSum, dtype, whole.data(), a.data(), b.data(), count);
    for (std::size_t at = 0; at < a.size(); at += 65536) {
      const std::size_t bytes = std::min<std::size_t>(65536, a.size() - at);
      reduce(ReduceOp::kSum, dtype, parts.data() + at, a.data() + at, b.data() + at, bytes / size_of(dtype));
    }
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size()), 0) << to_string(dtype);
  }
}

}  // namespace
}  // namespace foldcast::kernels::test
