#include "core/schedule/algorithms/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/schedule/cost.h"
#include "core/schedule/program.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/editing.h"
#include "tests/core/schedule/interpreter.h"

namespace foldcast::schedule {
namespace {

constexpr std::uint32_t kLargest = 64;

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(AllReduce, EveryAlgorithm,
                         testing::ValuesIn(algorithms_of(Collective::kAllReduce).begin(),
                                           algorithms_of(Collective::kAllReduce).end()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(EveryAlgorithm, VerifiesForEverySizeTo64) {
  for (std::uint32_t n = 1; n <= kLargest; ++n) {
    const Status verified = verify(build_flat(GetParam(), n), {}).status();
    ASSERT_TRUE(verified.ok()) << n << " ranks: " << verified.to_string();
  }
}

TEST_P(EveryAlgorithm, VerifiesBehindANodeStage) {
  for (std::uint32_t nodes : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13}) {
    for (std::uint32_t local : {1, 2, 3, 4}) {
      const Status verified = verify(build_staged(GetParam(), nodes, local), {}).status();
      ASSERT_TRUE(verified.ok()) << nodes << " nodes x " << local << ": " << verified.to_string();
    }
  }
}

TEST_P(EveryAlgorithm, SumsRealIntegersInRandomLegalOrders) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (std::uint32_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17}) {
    const Program flat = build_flat(GetParam(), n);
    const Program staged = build_staged(GetParam(), n, 1 + n % 3);
    for (std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{n} - 1, std::uint64_t{n},
                                std::uint64_t{31}, random() % 100}) {
      for (bool in_place : {false, true}) {
        EXPECT_EQ(run_randomly(flat, {count, in_place}, random), "") << n << " ranks, " << count << " elements";
        EXPECT_EQ(run_randomly(staged, {count, in_place}, random), "") << n << " nodes, " << count << " elements";
      }
    }
  }
}

/// Recovery and in-place calls rest on this: until a part of the output is the result, it is the member's own input.
TEST_P(EveryAlgorithm, WritesEachPartOfTheOutputOnceAndNeedsFewScratchUnits) {
  const std::map<std::string_view, std::uint32_t> most_units{
      {"ring", 1}, {"recursive_doubling", 3}, {"halving_doubling", 4}, {"double_tree", 2}};
  for (std::uint32_t n = 1; n <= kLargest; ++n) {
    const Program program = build_flat(GetParam(), n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      ASSERT_LE(program.ranks[rank].scratch_units, most_units.at(GetParam().name)) << n << " ranks, rank " << rank;
      double written = 0;
      for (const Step& step : program.ranks[rank].steps) {
        if (step.kind == StepKind::kSend || step.target.space != Space::kOutput) continue;
        written += static_cast<double>(step.target.span) / step.target.of;
      }
      ASSERT_NEAR(written, 1, 1e-9) << n << " ranks, rank " << rank;
    }
  }
}

TEST_P(EveryAlgorithm, CopiesAloneAndNotAtAllWhenThereIsNothingToCopy) {
  const std::vector<std::int32_t> members{0};
  for (Space source : {Space::kInput, Space::kOutput}) {
    Builder builder(0);
    Stage stage;
    stage.members = members;
    stage.source = {source, 1, 3, 1};
    stage.target = {Space::kOutput, 1, 3, 1};
    std::get<StageAlgorithm>(GetParam().build)(builder, stage);
    EXPECT_EQ(builder.finish().steps.size(), source == Space::kInput ? 1u : 0u);
  }
}

TEST_P(EveryAlgorithm, UsesOnlyItsChannel) {
  const Program program = build_staged(GetParam(), 6, 2);
  for (const Schedule& schedule : program.ranks) {
    for (const Step& step : schedule.steps) {
      const bool is_message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
      EXPECT_EQ(step.channel, is_message ? 3u : 0u);
    }
  }
}

ScheduleCost cost_for(void (*build)(Builder&, const Stage&), std::uint32_t n) {
  auto cost = cost_of(build_flat({"", Collective::kAllReduce, false, false, build}, n));
  EXPECT_TRUE(cost.ok()) << cost.status().to_string();
  return cost.ok() ? *cost : ScheduleCost{};
}

std::uint32_t log2_of(std::uint32_t p) { return static_cast<std::uint32_t>(std::countr_zero(p)); }

TEST(Cost, OfTheRingIsTheTextbooks) {
  for (std::uint32_t n : {2, 3, 4, 5, 7, 8, 13, 16, 31, 64}) {
    const ScheduleCost cost = cost_for(all_reduce_ring, n);
    const double step = 1.0 / n;
    EXPECT_EQ(cost.rounds, 2 * (n - 1));
    EXPECT_NEAR(cost.bytes_sent, 2 * (n - 1) * step, 1e-9);
    EXPECT_NEAR(cost.bytes_received, 2 * (n - 1) * step, 1e-9);
    EXPECT_NEAR(cost.critical_bytes, 2 * (n - 1) * step, 1e-9);
    EXPECT_NEAR(cost.bytes_reduced, (n - 1) * step, 1e-9);
    EXPECT_EQ(cost.messages, 4 * (n - 1));
  }
}

TEST(Cost, OfRecursiveDoublingIsTheTextbooks) {
  for (std::uint32_t n = 2; n <= kLargest; ++n) {
    const ScheduleCost cost = cost_for(all_reduce_recursive_doubling, n);
    const std::uint32_t p = std::bit_floor(n);
    const std::uint32_t extra = n == p ? 0 : 1;
    // log2 p exchanges lead from core member c to its complement: both the fold and the unfold lie on one path only
    // when both of them have an extra.
    const std::uint32_t fold_and_unfold = n - p > p / 2 ? 2 : extra;
    EXPECT_EQ(cost.rounds, log2_of(p) + fold_and_unfold) << n;
    EXPECT_NEAR(cost.bytes_sent, log2_of(p) + extra, 1e-9) << n;
    EXPECT_NEAR(cost.critical_bytes, log2_of(p) + fold_and_unfold, 1e-9) << n;
    EXPECT_NEAR(cost.bytes_reduced, log2_of(p) + extra, 1e-9) << n;
  }
}

TEST(Cost, OfHalvingDoublingIsTheTextbooks) {
  for (std::uint32_t n = 2; n <= kLargest; ++n) {
    const ScheduleCost cost = cost_for(all_reduce_halving_doubling, n);
    const std::uint32_t p = std::bit_floor(n);
    const double core = 2.0 * (p - 1) / p;
    const double fold = n == p ? 0 : 1.0 / std::bit_floor(p / (n - p));
    EXPECT_NEAR(cost.bytes_sent, std::max(core + fold, fold > 0 ? 1.0 : 0.0), 1e-9) << n;
    EXPECT_NEAR(cost.bytes_reduced, core / 2 + fold, 1e-9) << n;
    EXPECT_LE(cost.rounds, 2 * log2_of(p) + 2) << n;
    if (n == p) {
      EXPECT_EQ(cost.rounds, 2 * log2_of(p));
      EXPECT_NEAR(cost.critical_bytes, core, 1e-9);
    }
  }
}

TEST(Cost, OfTheDoubleTreeIsTheTextbooks) {
  for (std::uint32_t n = 2; n <= kLargest; ++n) {
    const ScheduleCost cost = cost_for(all_reduce_double_tree, n);
    EXPECT_LE(cost.bytes_sent, 2 + 1e-9) << n;
    EXPECT_LE(cost.bytes_received, 2 + 1e-9) << n;
    EXPECT_LE(cost.rounds, 2 * (log2_of(std::bit_floor(n)) + 1)) << n;
  }
  EXPECT_NEAR(cost_for(all_reduce_double_tree, 2).bytes_sent, 1, 1e-9);
  EXPECT_NEAR(cost_for(all_reduce_double_tree, 64).bytes_sent, 2, 1e-9);
}

TEST(Find, KnowsTheNamesAndSaysThem) {
  for (const Algorithm& entry : algorithms_of(Collective::kAllReduce)) {
    const auto found = find_algorithm(Collective::kAllReduce, entry.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->build, entry.build);
  }
  const auto missing = find_algorithm(Collective::kAllReduce, "rign");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), Code::kInvalidArgument);
  for (const Algorithm& entry : algorithms_of(Collective::kAllReduce)) {
    EXPECT_NE(missing.status().message().find(entry.name), std::string::npos);
  }
}

}  // namespace
}  // namespace foldcast::schedule
