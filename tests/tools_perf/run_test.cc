#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools_perf/run_fixture.h"

namespace foldcast::tools {
namespace {

using testing::FakeBehaviour;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunTest;

TEST_F(RunTest, ComparesPathsOnAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 5, 8}) {
    std::filesystem::remove(directory_ / "out");
    ASSERT_EQ(run({.ranks = ranks, .ranks_per_node = 2}), 0) << text("err");
    EXPECT_EQ(others_, 0);
    EXPECT_EQ(text("err"), "");
    auto records = json();
    ASSERT_EQ(records.size(), 10u) << "five sizes on two paths";
    for (const auto& record : records) {
      EXPECT_EQ(record["wrong"], 0);
      EXPECT_EQ(record["nranks"], ranks);
      EXPECT_EQ(record["nnodes"], (ranks + 1) / 2);
      EXPECT_LE(record["time_us"]["min"], record["time_us"]["median"]);
      EXPECT_LE(record["time_us"]["median"], record["time_us"]["p99"]);
    }
    EXPECT_EQ(records[0]["path"], "offload");
    EXPECT_EQ(records[1]["path"], "host");
    std::string table = text("out");
    std::size_t first = table.find("# foldcast perf");
    EXPECT_EQ(table.find("# foldcast perf", first + 1), std::string::npos) << "only rank 0 prints";
    EXPECT_THAT(table, HasSubstr("0 OK"));
  }
}

TEST_F(RunTest, EveryDatatypeAndOpIsRight) {
  flags_.datatypes = "all";
  flags_.ops = "all";
  flags_.min_bytes = "0";
  flags_.max_bytes = "8K";
  flags_.factor = "1000";
  flags_.iterations = "1";
  flags_.paths = "host";
  ASSERT_EQ(run({.ranks = 3}), 0) << text("err");
  EXPECT_EQ(json().size(), (8u * 12 + 6 * 6 + 10) * 3);
}

TEST_F(RunTest, OneFlippedBitOnOneRankIsCountedOnItsPathAndEndsInFailure) {
  for (int rank : {0, 2}) {
    std::filesystem::remove(directory_ / "err");
    ASSERT_EQ(run({.ranks = 3, .flip_rank = rank, .flip_path = FOLDCAST_PATH_OFFLOAD}), 1);
    EXPECT_EQ(others_, 2) << "all ranks end alike";
    for (const auto& record : json()) {
      EXPECT_EQ(record["wrong"], record["path"] == "offload" ? 3 : 0)
          << "out of place, in place and the last timed call";
    }
    EXPECT_THAT(text("out"), HasSubstr("15 FAILED, in 5 of 10"));
    EXPECT_THAT(text("err"), HasSubstr("rank " + std::to_string(rank) + ": 1 elements wrong"));
  }
}

TEST_F(RunTest, RanksThatDifferWithinTheBoundAreWrongToo) {
  flags_.min_bytes = flags_.max_bytes = "1K";  // its last element is a general one, judged by a bound
  ASSERT_EQ(run({.ranks = 3, .flip_rank = 1, .flip_path = FOLDCAST_PATH_OFFLOAD, .flip_last = true}), 1);
  EXPECT_EQ(json()[0]["wrong"], 3) << "out of place, in place and the last timed call";
  EXPECT_EQ(json()[1]["wrong"], 0);
  EXPECT_THAT(text("err"), HasSubstr("different bits"));
}

TEST_F(RunTest, UncheckedIsSaidAndNeverCalledRight) {
  flags_.check = "0";
  ASSERT_EQ(run({.ranks = 2, .flip_rank = 0}), 0);
  EXPECT_TRUE(json()[0]["wrong"].is_null());
  EXPECT_THAT(text("out"), HasSubstr("not checked"));
}

TEST_F(RunTest, AnOffloadThatIsNotThereIsShown) {
  ASSERT_EQ(run({.ranks = 2, .offload = false}), 0) << text("err");
  EXPECT_EQ(json()[0]["path"], "host");
  EXPECT_THAT(text("out"), HasSubstr("ring(HOST)"));
  EXPECT_THAT(text("out"), HasSubstr("Crossover (float32 sum): none"));
}

TEST_F(RunTest, FindsTheCrossover) {
  flags_.min_bytes = "1K";
  flags_.max_bytes = "64K";
  ASSERT_EQ(run({.ranks = 2, .host_us_per_byte = 1, .offload_us = 8000}), 0) << text("err");
  EXPECT_THAT(text("out"), HasSubstr("Crossover (float32 sum): 16384 bytes")) << text("out");
}

TEST_F(RunTest, TimesInPlaceAndBlockingAsAsked) {
  flags_.in_place = true;
  flags_.blocking = "1";
  ASSERT_EQ(run({.ranks = 3}), 0) << text("err");
  EXPECT_EQ(json()[0]["in_place"], true);
  EXPECT_THAT(text("out"), HasSubstr("blocking: 1"));
}

TEST_F(RunTest, EndsASizeAfterItsTimeButNotBeforeFiveCalls) {
  flags_.min_bytes = flags_.max_bytes = "4K";
  flags_.iterations = "1000000";
  flags_.seconds = "0.2";
  flags_.paths = "host";
  auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run({.ranks = 2, .host_us_per_byte = 5}), 0) << text("err");  // 20 ms a call
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(RunTest, WhatCannotBeWrittenIsKnownBeforeMeasuring) {
  flags_.json = directory_ / "none" / "out.json";
  ASSERT_EQ(run({.ranks = 3}), 1);
  EXPECT_EQ(others_, 2);
  EXPECT_THAT(text("err"), HasSubstr("none/out.json: No such file or directory"));
  EXPECT_EQ(text("out"), "") << "nothing was measured";
}

TEST_F(RunTest, WhatIsUnsupportedEndsTheRunBeforeMeasuring) {
  ASSERT_EQ(run({.ranks = 2, .unsupported_at = 64}), 1);
  EXPECT_THAT(text("err"), HasSubstr("foldcast perf: unsupported: the fake does not reduce that many elements\n"));
  EXPECT_EQ(text("out"), "");
}

TEST_F(RunTest, AKilledRankEndsTheOthersWithOneLine) {
  for (int victim : {0, 2}) {
    std::filesystem::remove(directory_ / "err");
    int code = run({.ranks = 3, .kill_rank = victim, .kill_call = 30, .timeout_s = 2});
    EXPECT_EQ(code, victim == 0 ? 128 + 9 : 1);
    EXPECT_EQ(others_, 2);
    EXPECT_THAT(text("err"), HasSubstr("foldcast perf: peer failed: a rank of the fake is gone\n"));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "out.json")) << "no half of a result";
  }
}

TEST_F(RunTest, AWorkloadIsSummedUp) {
  std::ofstream(directory_ / "m.sizes") << "# model\n64\n128\n128\n";
  flags_.sizes_from = directory_ / "m.sizes";
  ASSERT_EQ(run({.ranks = 2}), 0) << text("err");
  EXPECT_EQ(json().size(), 4u);
  EXPECT_THAT(text("out"), HasSubstr("3 calls, 320 bytes"));
}

}  // namespace
}  // namespace foldcast::tools
