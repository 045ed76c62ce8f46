#include "tools/foldcast/perf_overlap.h"

#include <gtest/gtest.h>

#include <chrono>

namespace foldcast::tools {
namespace {

TEST(Overlap, IsWhatTheComputationHides) {
  EXPECT_DOUBLE_EQ(Overlap::of(100, 100, 100).percent, 100) << "all hidden";
  EXPECT_DOUBLE_EQ(Overlap::of(100, 100, 200).percent, 0) << "one after the other";
  EXPECT_DOUBLE_EQ(Overlap::of(100, 100, 125).percent, 75);
  EXPECT_DOUBLE_EQ(Overlap::of(100, 100, 300).percent, 0) << "never below 0";
  EXPECT_DOUBLE_EQ(Overlap::of(100, 100, 90).percent, 100) << "nor above 100";
  EXPECT_DOUBLE_EQ(Overlap::of(0, 0, 0).percent, 0);
}

TEST(ComputeLoop, TakesLongerForMore) {
  ComputeLoop loop;
  auto took_us = [&](double us) {
    auto start = std::chrono::steady_clock::now();
    loop.run(us);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  // It never takes much less; how much more is up to what else the machine does.
  EXPECT_GT(took_us(20000), 5000);
  loop.run(0);
}

}  // namespace
}  // namespace foldcast::tools
