#include "tools/foldcast/perf_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

namespace foldcast::tools {
namespace {

using ::testing::HasSubstr;

std::uint64_t fresh_seed() {
  std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(MovedData, HasTheSameElementsWhereverTheyAreAskedFor) {
  std::uint64_t seed = fresh_seed();
  for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
    DataShape shape{static_cast<Datatype>(dtype), seed};
    std::size_t bytes = size_of(shape.dtype);
    MovedData data(shape, 3);
    std::size_t all = 2 * MovedData::kPeriod + 100;
    std::vector<std::byte> whole(all * bytes);
    data.fill(whole.data(), 0, all);
    for (std::size_t first : {std::size_t{0}, std::size_t{1}, MovedData::kPeriod - 1, MovedData::kPeriod + 5}) {
      std::vector<std::byte> part((MovedData::kPeriod + 7) * bytes);
      data.fill(part.data(), first, MovedData::kPeriod + 7);
      EXPECT_EQ(std::memcmp(part.data(), whole.data() + first * bytes, part.size()), 0) << to_string(shape.dtype);
      EXPECT_EQ(data.check(part.data(), first, MovedData::kPeriod + 7).elements, 0u);
    }
    EXPECT_GT(MovedData(shape, 2).check(whole.data(), 0, all).elements, all / 4) << "ranks differ";
    whole[bytes * (MovedData::kPeriod + 9)] ^= std::byte{1};
    Wrong wrong = data.check(whole.data(), 0, all);
    EXPECT_EQ(wrong.elements, 1u);
    EXPECT_THAT(wrong.first, HasSubstr("element 65530: 0x"));
  }
}

/// A broadcast's receiver, whose buffers are damaged in turn.
class ExpectationTest : public ::testing::Test {
 protected:
  Wrong judge(const PerfCall& call, const std::function<void(PerfBuffers&)>& damage) {
    CallLayout layout = CallLayout::of(call);
    Expectation expected(call, layout, {fresh_seed(), WireFormat::kExact});
    PerfBuffers buffers(layout.room * size_of(call.dtype));
    expected.prepare(buffers);
    damage(buffers);
    return expected.judge(buffers);
  }
};

TEST_F(ExpectationTest, FindsWritesOutsideOfTheResult) {
  // On no root nothing is received, so whatever is written is wrong.
  PerfCall call{.kind = Collective::kGather, .count = 100, .ranks = 4, .rank = 1, .root = 0};
  EXPECT_EQ(judge(call, [](PerfBuffers&) {}).elements, 0u);
  std::size_t end = 400 * sizeof(float);
  for (std::ptrdiff_t at :
       {std::ptrdiff_t{-1}, std::ptrdiff_t{-4096}, std::ptrdiff_t{0}, static_cast<std::ptrdiff_t>(end) - 1,
        static_cast<std::ptrdiff_t>(end), static_cast<std::ptrdiff_t>(end) + 4095}) {
    Wrong wrong = judge(call, [&](PerfBuffers& buffers) { buffers.recv.data()[at] = std::byte{0}; });
    EXPECT_EQ(wrong.elements, 1u) << at;
    EXPECT_THAT(wrong.first, HasSubstr("written outside of the result"));
  }
}

TEST_F(ExpectationTest, FindsAWrittenSendBuffer) {
  PerfCall call{.kind = Collective::kGather, .count = 100, .ranks = 4, .rank = 1, .root = 0};
  Wrong wrong = judge(call, [](PerfBuffers& buffers) { buffers.send.data()[399] ^= std::byte{4}; });
  EXPECT_EQ(wrong.elements, 1u);
  EXPECT_THAT(wrong.first, HasSubstr("the send buffer was written: element 99"));
  call.kind = Collective::kReduce;
  wrong = judge(call, [](PerfBuffers& buffers) { buffers.send.data()[0] ^= std::byte{4}; });
  EXPECT_EQ(wrong.elements, 1u);
}

TEST_F(ExpectationTest, WhatWasNotReceivedIsWrong) {
  PerfCall call{.kind = Collective::kAllGather, .count = 100, .ranks = 4, .rank = 1};
  EXPECT_EQ(judge(call, [](PerfBuffers&) {}).elements, 400u);
  call.in_place = true;
  EXPECT_EQ(judge(call, [](PerfBuffers&) {}).elements, 300u) << "its own block is there";
  call.kind = Collective::kScatter;
  call.root = 1;
  EXPECT_EQ(judge(call, [](PerfBuffers&) {}).elements, 0u) << "the root's block stays where it is";
}

}  // namespace
}  // namespace foldcast::tools
