#include "tools/foldcast/perf_statistics.h"

#include <gtest/gtest.h>

#include <numeric>

namespace foldcast::tools {
namespace {

TEST(Summarize, TakesTheMiddleAndTheNearestRank) {
  Timing odd = summarize({5, 1, 9});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 5);
  EXPECT_EQ(odd.p99, 9);
  EXPECT_EQ(odd.max, 9);
  EXPECT_EQ(summarize({4, 1, 2, 9}).median, 3);
  EXPECT_EQ(summarize({7}).p99, 7);
  EXPECT_EQ(summarize({}).max, 0);
}

TEST(Summarize, P99LeavesOneInAHundredOut) {
  std::vector<double> times(100);
  std::iota(times.begin(), times.end(), 1);
  EXPECT_EQ(summarize(times).p99, 99);
  times.push_back(101);
  EXPECT_EQ(summarize(times).p99, 100);
  times.resize(99);
  EXPECT_EQ(summarize(times).p99, 99);
  std::vector<double> many(1000);
  std::iota(many.begin(), many.end(), 1);
  EXPECT_EQ(summarize(many).p99, 990);
}

TEST(Bandwidth, IsDecimalGigabytesTimesTheBusFactor) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(1e9, 1e6), 1);
  EXPECT_EQ(algorithm_bandwidth(8, 0), 0);
}

TEST(Crossover, IsTheSmallestSizeFromWhichOffloadAlwaysWins) {
  std::vector<PathTimes> times = {{8, 10, 20}, {64, 30, 20}, {512, 40, 50}, {4096, 80, 90}};
  EXPECT_EQ(crossover(times), 512);
  times[1].offload_us = 19;
  EXPECT_EQ(crossover(times), 8);
  times[3].offload_us = 90;  // a tie is no win
  EXPECT_EQ(crossover(times), std::nullopt);
  times[3].offload_us = std::nullopt;  // ran on the host
  EXPECT_EQ(crossover(times), std::nullopt);
  EXPECT_EQ(crossover({}), std::nullopt);
}

}  // namespace
}  // namespace foldcast::tools
