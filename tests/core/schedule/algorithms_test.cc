#include "core/schedule/algorithms/algorithms.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/schedule/program.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/every_algorithm.h"

namespace foldcast::schedule {
namespace {

constexpr std::uint32_t kLargest = 64;

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {
 protected:
  Collective kind() const { return GetParam().kind; }

  /// Calls `check` with every flat program for up to `largest` ranks.
  template <typename Check>
  void for_each_program(std::uint32_t largest, const Check& check) const {
    for (std::uint32_t n = 1; n <= largest; ++n) {
      if (!takes(kind(), n)) continue;
      for (const std::int32_t root : roots_of(kind(), n)) {
        for (const bool in_place : ways_in_place(kind())) {
          SCOPED_TRACE(testing::Message() << n << " ranks, root " << root << (in_place ? ", in place" : ""));
          check(build_flat(GetParam(), n, root, in_place), root);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, testing::ValuesIn(every_algorithm()), name_of);

TEST_P(EveryAlgorithm, VerifiesForEverySizeTo64AndEveryRoot) {
  bool always_keeps_order = true;
  for_each_program(kLargest, [&](const Program& program, std::int32_t root) {
    const auto proof = verify(program, {kind(), root});
    ASSERT_TRUE(proof.ok()) << proof.status().to_string();
    always_keeps_order &= proof->keeps_order;
  });
  EXPECT_EQ(GetParam().keeps_order, always_keeps_order);
}

/// What is sent is rounded: all ranks must still end with the same bits.
TEST_P(EveryAlgorithm, VerifiesWithRounding) {
  for (std::uint32_t n = 1; n <= 20; ++n) {
    if (!takes(kind(), n)) continue;
    for (const std::int32_t root : roots_of(kind(), n)) {
      for (const bool in_place : ways_in_place(kind())) {
        const Program program = build_flat(GetParam(), FlatCall{n, root, in_place, true});
        const auto proof = verify(program, {kind(), root});
        ASSERT_TRUE(proof.ok()) << n << " ranks, root " << root << ": " << proof.status().to_string();
        EXPECT_TRUE(proof->keeps_order || !GetParam().keeps_order);
      }
    }
  }
}

/// Recovery and in-place calls rest on this: until a part of the output is the result, it is the member's own input.
TEST_P(EveryAlgorithm, WritesEachPartOfTheOutputOnceAndNeedsFewScratchUnits) {
  const std::map<std::string_view, std::uint32_t> most_units{{"ring", 1},
                                                             {"recursive_doubling", 3},
                                                             {"halving_doubling", 4},
                                                             {"double_tree", 2},
                                                             {"direct", 4},
                                                             {"halving", 3},
                                                             {"reduce_scatter_gather", 5},
                                                             {"gather_all", 8},
                                                             {"knomial", 3},
                                                             {"knomial4", 3},
                                                             {"bruck", 6},
                                                             {"scatter_allgather", 0},
                                                             {"chain", 1},
                                                             {"doubling", 0}};
  for_each_program(kLargest / 2 + 1, [&](const Program& program, std::int32_t root) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      ASSERT_LE(program.ranks[rank].scratch_units, most_units.at(GetParam().name)) << "rank " << rank;
      double written = 0;
      for (const Step& step : program.ranks[rank].steps) {
        if (step.kind == StepKind::kSend || step.target.space != Space::kOutput) continue;
        written += static_cast<double>(step.target.span) / step.target.of;
      }
      const bool is_root = static_cast<std::int32_t>(rank) == root;
      double expected = 1;
      if (kind() == Collective::kReduceScatter || kind() == Collective::kScatter) {
        expected /= static_cast<double>(program.ranks.size());
      }
      if (kind() == Collective::kReduce || kind() == Collective::kGather) expected = is_root ? 1 : 0;
      if (kind() == Collective::kSendRecv) expected = is_root ? 0 : 1;
      ASSERT_NEAR(written, expected, 1e-9) << "rank " << rank;
    }
  });
}

TEST_P(EveryAlgorithm, CopiesAloneAndNotAtAllWhenThereIsNothingToCopy) {
  if (!takes(kind(), 1)) return;
  const std::vector<std::int32_t> members{0};
  const std::vector<Part> blocks{{1, 3, 1}};
  for (Space source : {Space::kInput, Space::kOutput}) {
    Builder builder(0);
    if (const auto* build = std::get_if<StageAlgorithm>(&GetParam().build)) {
      Stage stage;
      stage.members = members;
      stage.source = {source, 1, 3, 1};
      stage.target = {Space::kOutput, 1, 3, 1};
      (*build)(builder, stage);
    } else {
      BlockStage stage;
      stage.members = members;
      stage.blocks = blocks;
      stage.source = {source, 0};
      stage.target = {Space::kOutput, 0};
      std::get<BlockAlgorithm>(GetParam().build)(builder, stage);
    }
    EXPECT_EQ(builder.finish().steps.size(), source == Space::kInput ? 1u : 0u);
  }
}

/// A rank of a large job builds its schedule alone, when it first needs it.
TEST_P(EveryAlgorithm, BuildsOneRankOfThousands) {
  if (!takes(kind(), 3)) return;
  constexpr std::uint32_t kRanks = 4099;
  const Schedule schedule = build_one(GetParam(), {kRanks, 4097}, 17);
  EXPECT_GT(schedule.steps.size(), 0u);
  EXPECT_LT(schedule.dependants.size(), 6 * schedule.steps.size() + 3 * kRanks);
}

TEST(Find, KnowsTheNamesAndSaysThem) {
  for (const Algorithm& algorithm : every_algorithm()) {
    const auto found = find_algorithm(algorithm.kind, algorithm.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->build, algorithm.build);
    EXPECT_EQ(found->kind, algorithm.kind);
    const auto missing = find_algorithm(algorithm.kind, "rign");
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.status().code(), Code::kInvalidArgument);
    EXPECT_NE(missing.status().message().find(algorithm.name), std::string::npos);
  }
}

TEST(Find, ServesKindsByWhatTheyAreScheduledAs) {
  EXPECT_EQ(algorithms_of(Collective::kBarrier).data(), algorithms_of(Collective::kAllReduce).data());
  EXPECT_EQ(algorithms_of(Collective::kAllGatherV).data(), algorithms_of(Collective::kAllGather).data());
  EXPECT_TRUE(algorithms_of(Collective::kNone).empty());
}

}  // namespace
}  // namespace foldcast::schedule
