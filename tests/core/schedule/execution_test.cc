// Programs on real memory, in random legal orders, against a serial reference.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/schedule/program.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/every_algorithm.h"
#include "tests/core/schedule/interpreter.h"

namespace foldcast::schedule {
namespace {

class EveryAlgorithmRuns : public testing::TestWithParam<Algorithm> {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(seed_)); }
  Collective kind() const { return GetParam().kind; }
  std::int32_t any_root(std::uint32_t n) {
    const auto roots = roots_of(kind(), n);
    return roots[random_() % roots.size()];
  }
  /// Of the whole; with blocks a multiple of `n`.
  std::vector<std::uint64_t> counts(std::uint32_t n) {
    if (has_blocks(kind())) return {0, n, 2 * n, 7 * n, n * (1 + random_() % 9)};
    return {0, 1, n - 1, n, 31, random_() % 100};
  }

  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithmRuns, testing::ValuesIn(every_algorithm()), name_of);

TEST_P(EveryAlgorithmRuns, GivesTheReferencesResult) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (std::uint32_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17}) {
    if (!takes(kind(), n)) continue;
    for (const bool rounds : {false, true}) {
      const std::int32_t root = any_root(n);
      const bool has_variants = ways_in_place(kind()).size() > 1;
      const Program apart = build_flat(GetParam(), FlatCall{n, root, false, rounds});
      const Program in_place = build_flat(GetParam(), FlatCall{n, root, true, rounds});
      for (const std::uint64_t count : counts(n)) {
        RunOptions options{{kind(), root}, count, false, GetParam().keeps_order};
        EXPECT_EQ(run_randomly(apart, options, random_), "") << n << " ranks, root " << root << ", " << count;
        options.in_place = true;
        const Program& program = has_variants ? in_place : apart;
        EXPECT_EQ(run_randomly(program, options, random_), "") << n << " in place, root " << root << ", " << count;
      }
    }
  }
}

TEST(AllToAll, MayBeInPlaceOnSomeRanksOnly) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const Algorithm& algorithm : algorithms_of(Collective::kAllToAll)) {
    for (std::uint32_t n : {2, 3, 4, 5, 8, 13}) {
      Program mixed = build_flat(algorithm, FlatCall{n, 0, false});
      const Program in_place = build_flat(algorithm, FlatCall{n, 0, true});
      for (std::uint32_t rank = 0; rank < n; ++rank) {
        if (random() % 2 == 0) mixed.ranks[rank] = in_place.ranks[rank];
      }
      const auto proof = verify(mixed, {Collective::kAllToAll});
      EXPECT_TRUE(proof.ok()) << proof.status().to_string();
      for (int order = 0; order < 4; ++order) {
        EXPECT_EQ(run_randomly(mixed, {{Collective::kAllToAll}, 3 * n, true}, random), "");
      }
    }
  }
}

}  // namespace
}  // namespace foldcast::schedule
