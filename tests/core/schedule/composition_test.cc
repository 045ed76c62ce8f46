// Algorithms as the network's part of a hierarchical plan: among leaders, whose blocks are their nodes' and of unequal
// length, and in columns, whose blocks are apart.

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/schedule/cost.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/every_algorithm.h"
#include "tests/core/schedule/interpreter.h"
#include "tests/core/schedule/staging.h"

namespace foldcast::schedule {
namespace {

class EveryAlgorithmBetweenNodes : public testing::TestWithParam<Algorithm> {
 protected:
  Collective kind() const { return GetParam().kind; }

  /// Calls `check` with every staging for some layouts and all roots.
  template <typename Check>
  void for_each_staging(const Check& check) const {
    const std::vector<std::vector<std::uint32_t>> layouts{
        {1},    {1, 1},    {3},       {2, 2},       {1, 3},          {3, 1, 2},       {2, 2, 2},
        {4, 1}, {3, 3, 3}, {5, 2, 1}, {2, 2, 2, 2}, {1, 2, 3, 4, 2}, {2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1}};
    for (const auto& sizes : layouts) {
      const std::uint32_t ranks = std::accumulate(sizes.begin(), sizes.end(), 0u);
      const bool is_uniform = std::vector(sizes.size(), sizes.front()) == sizes;
      for (const std::int32_t root : roots_of(kind(), ranks)) {
        for (const bool columns : {false, true}) {
          const bool is_dense = !columns || sizes.front() == 1 || !has_blocks(kind());
          if (columns && (!is_uniform || !has_columns(kind()))) continue;
          if (GetParam().adjacent && !is_dense) continue;
          for (const bool in_place : ways_in_place(kind())) {
            for (const bool rounds : {false, true}) {
              SCOPED_TRACE(testing::Message() << testing::PrintToString(sizes) << ", root " << root
                                              << (columns ? ", columns" : "") << (rounds ? ", rounded" : ""));
              check(StagedCall{sizes, root, columns, in_place, rounds}, ranks);
              if (testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
};

std::vector<Algorithm> with_stagings() {
  std::vector<Algorithm> all = every_algorithm();
  std::erase_if(all, [](const Algorithm& algorithm) { return algorithm.kind == Collective::kSendRecv; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithmBetweenNodes, testing::ValuesIn(with_stagings()), name_of);

TEST_P(EveryAlgorithmBetweenNodes, Verifies) {
  for_each_staging([&](const StagedCall& call, std::uint32_t) {
    const auto proof = verify(build_staged(GetParam(), call), {kind(), call.root});
    ASSERT_TRUE(proof.ok()) << proof.status().to_string();
    // Nodes are intervals of ranks. Columns reduce within each node first, which keeps the order as well.
    EXPECT_TRUE(proof->keeps_order || !GetParam().keeps_order);
    EXPECT_TRUE(cost_of(build_staged(GetParam(), call)).ok());
  });
}

TEST_P(EveryAlgorithmBetweenNodes, GivesTheReferencesResult) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for_each_staging([&](const StagedCall& call, std::uint32_t ranks) {
    if (random() % 3 != 0) return;  // each is as good as the others
    const Program program = build_staged(GetParam(), call);
    for (const bool in_place : {false, true}) {
      const std::uint64_t count = has_blocks(kind()) ? ranks * (random() % 5) : random() % 40;
      const RunOptions options{{kind(), call.root}, count, in_place, GetParam().keeps_order};
      ASSERT_EQ(run_randomly(program, options, random), "") << count << " elements";
    }
  });
}

TEST_P(EveryAlgorithmBetweenNodes, UsesOnlyItsChannel) {
  for (const Schedule& schedule : build_staged(GetParam(), StagedCall{{2, 2, 2, 1, 2}, 3}).ranks) {
    for (const Step& step : schedule.steps) {
      const bool is_message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
      EXPECT_EQ(step.channel, is_message ? 3u : 0u);
    }
  }
}

}  // namespace
}  // namespace foldcast::schedule
