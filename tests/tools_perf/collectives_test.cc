#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools_perf/run_fixture.h"
#include "tools/foldcast/perf_shape.h"

namespace foldcast::tools {
namespace {

using testing::FakeBehaviour;
using ::testing::HasSubstr;
using testing::RunTest;
using Stray = FakeBehaviour::Stray;

std::vector<std::string> collectives() {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < kCollectiveCount; ++i) names.emplace_back(to_string(static_cast<Collective>(i)));
  return names;
}

/// Whole runs of each collective over the fake.
class CollectiveRun : public RunTest, public ::testing::WithParamInterface<std::string> {
 protected:
  CollectiveRun() {
    flags_.collective = GetParam();
    flags_.min_bytes = "8";
    flags_.max_bytes = "200K";
    flags_.factor = "9";
    flags_.paths = "host";
  }
  Collective kind() const { return *collective_from_string(GetParam()); }
};

TEST_P(CollectiveRun, IsRightOnAnyNumberOfRanksAndForEveryRoot) {
  flags_.root = "-1";
  for (int ranks : {1, 2, 3, 5, 7, 8}) {
    ASSERT_EQ(run({.ranks = ranks, .ranks_per_node = 2}), 0) << ranks << " ranks: " << text("err");
    EXPECT_EQ(others_, 0);
    int roots = 0;
    for (const auto& record : json()) {
      EXPECT_EQ(record["wrong"], 0) << record.dump();
      EXPECT_EQ(record["collective"], GetParam());
      if (has_root(kind())) roots = std::max(roots, record["root"].get<int>() + 1);
    }
    EXPECT_EQ(roots, has_root(kind()) ? ranks : 0);
  }
}

TEST_P(CollectiveRun, MovesAndReducesEveryDatatype) {
  flags_.datatypes = "all";
  flags_.ops = "all";
  flags_.max_bytes = "8K";
  flags_.factor = "1000";
  flags_.iterations = "1";
  ASSERT_EQ(run({.ranks = 3}), 0) << text("err");
}

TEST_P(CollectiveRun, TimesInPlace) {
  if (!has_in_place(kind())) return;
  flags_.in_place = true;
  ASSERT_EQ(run({.ranks = 3}), 0) << text("err");
  for (const auto& record : json()) EXPECT_EQ(record["wrong"], 0);
}

TEST_P(CollectiveRun, OverlapsWhatRunsInTheBackground) {
  flags_.overlap = true;
  flags_.test_every = "50";
  flags_.min_bytes = flags_.max_bytes = "64K";
  flags_.iterations = "5";
  ASSERT_EQ(run({.ranks = 2, .host_us_per_byte = 0.1}), 0) << text("err");
  auto overlap = json()[0]["overlap"];
  EXPECT_GE(overlap["percent"], 0);
  EXPECT_LE(overlap["percent"], 100);
  EXPECT_THAT(text("out"), HasSubstr("overlap"));
}

TEST_P(CollectiveRun, OneFlippedBitIsFound) {
  if (kind() == Collective::kBarrier) return;
  flags_.min_bytes = flags_.max_bytes = "16K";
  flags_.paths = "offload,host";
  ASSERT_EQ(run({.ranks = 3, .flip_rank = 0}), 1);
  EXPECT_GT(json()[0]["wrong"], 0);
  EXPECT_EQ(json()[1]["wrong"], 0) << text("err");
}

TEST_P(CollectiveRun, WritesOutsideOfTheResultAreFound) {
  if (kind() == Collective::kBarrier) return;
  flags_.min_bytes = flags_.max_bytes = "16K";
  flags_.paths = "offload,host";
  for (Stray stray : {Stray::kBefore, Stray::kBehind}) {
    std::filesystem::remove(directory_ / "err");
    FakeBehaviour behaviour{.ranks = 3};
    behaviour.stray_rank = 0;
    behaviour.stray = stray;
    ASSERT_EQ(run(behaviour), 1);
    EXPECT_GT(json()[0]["wrong"], 0);
    EXPECT_EQ(json()[1]["wrong"], 0);
    EXPECT_THAT(text("err"), HasSubstr("written outside of the result"));
  }
}

TEST_P(CollectiveRun, AWrittenSendBufferIsFound) {
  if (kind() == Collective::kBarrier) return;
  flags_.min_bytes = flags_.max_bytes = "16K";
  flags_.paths = "offload,host";
  FakeBehaviour behaviour{.ranks = 3};
  behaviour.stray_rank = 0;
  behaviour.stray = Stray::kInput;
  ASSERT_EQ(run(behaviour), 1);
  EXPECT_GT(json()[0]["wrong"], 0);
  EXPECT_THAT(text("err"), HasSubstr("the send buffer was written"));
}

TEST_P(CollectiveRun, ACallThatDiffersBetweenRanksEndsAllWithOneLine) {
  FakeBehaviour behaviour{.ranks = 3};
  behaviour.mismatch_rank = 1;
  behaviour.mismatch_call = 12;
  ASSERT_EQ(run(behaviour), 1);
  EXPECT_EQ(others_, 2);
  EXPECT_THAT(text("err"), HasSubstr("foldcast perf: mismatch: the ranks of the fake ask for different things\n"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out.json"));
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveRun, ::testing::ValuesIn(collectives()),
                         [](const auto& one) { return one.param; });

TEST_F(RunTest, ABarrierThatDoesNotWaitIsFound) {
  flags_.collective = "barrier";
  FakeBehaviour behaviour{.ranks = 3};
  ASSERT_EQ(run(behaviour), 0) << text("err");
  EXPECT_EQ(json().size(), 2u) << "one size on two paths";
  behaviour.barrier_leaks = true;
  ASSERT_EQ(run(behaviour), 1);
  EXPECT_GT(json()[0]["wrong"], 0);
  EXPECT_EQ(json()[1]["wrong"], 0);
  EXPECT_THAT(text("err"), HasSubstr("a rank left before the last had come"));
}

TEST_F(RunTest, ARootThatDoesNotExistIsTheUsersMistake) {
  flags_.collective = "broadcast";
  flags_.root = "3";
  ASSERT_EQ(run({.ranks = 3}), 2);
  EXPECT_EQ(others_, 2);
  EXPECT_THAT(text("err"), HasSubstr("-r 3: the job has 3 ranks; give a rank from 0 to 2"));
}

}  // namespace
}  // namespace foldcast::tools
