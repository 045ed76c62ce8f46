#include "core/schedule/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "core/schedule/program.h"

namespace foldcast::schedule {
namespace {

constexpr std::uint32_t kLargest = 64;

ScheduleCost cost_for(Collective kind, std::string_view name, std::uint32_t n, std::int32_t root = 0) {
  auto cost = cost_of(build_flat(find_algorithm(kind, name).value(), n, root));
  EXPECT_TRUE(cost.ok()) << cost.status().to_string();
  return cost.ok() ? *cost : ScheduleCost{};
}

std::uint32_t log2_of(std::uint32_t p) { return static_cast<std::uint32_t>(std::countr_zero(p)); }

TEST(Cost, OfTheRingIsTheTextbooks) {
  for (std::uint32_t n : {2, 3, 4, 5, 7, 8, 13, 16, 31, 64}) {
    const ScheduleCost cost = cost_for(Collective::kAllReduce, "ring", n);
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
    const ScheduleCost cost = cost_for(Collective::kAllReduce, "recursive_doubling", n);
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
    const ScheduleCost cost = cost_for(Collective::kAllReduce, "halving_doubling", n);
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
    const ScheduleCost cost = cost_for(Collective::kAllReduce, "double_tree", n);
    EXPECT_LE(cost.bytes_sent, 2 + 1e-9) << n;
    EXPECT_LE(cost.bytes_received, 2 + 1e-9) << n;
    EXPECT_LE(cost.rounds, 2 * (log2_of(std::bit_floor(n)) + 1)) << n;
  }
  EXPECT_NEAR(cost_for(Collective::kAllReduce, "double_tree", 2).bytes_sent, 1, 1e-9);
  EXPECT_NEAR(cost_for(Collective::kAllReduce, "double_tree", 64).bytes_sent, 2, 1e-9);
}

std::uint32_t log2_up(std::uint32_t n) { return log2_of(std::bit_ceil(n)); }

TEST(Cost, OfWhatSendsTheLeastPossible) {
  for (std::uint32_t n : {2, 3, 4, 5, 7, 8, 13, 16, 31, 64}) {
    const double least = (n - 1.0) / n;
    for (const auto& [kind, name] : {std::pair(Collective::kReduceScatter, "ring"),
                                     {Collective::kReduceScatter, "direct"},
                                     {Collective::kAllGather, "ring"},
                                     {Collective::kAllGather, "bruck"},
                                     {Collective::kAllGather, "direct"},
                                     {Collective::kAllToAll, "direct"},
                                     {Collective::kScatter, "direct"},
                                     {Collective::kScatter, "knomial"}}) {
      SCOPED_TRACE(testing::Message() << to_string(kind) << " " << name << ", " << n << " ranks");
      EXPECT_NEAR(cost_for(kind, name, n).bytes_sent, least, 1e-9);
    }
    EXPECT_NEAR(cost_for(Collective::kAllReduce, "direct", n).bytes_sent, 2 * least, 1e-9);
    for (std::string_view name : {"direct", "knomial"}) {
      EXPECT_NEAR(cost_for(Collective::kGather, name, n, static_cast<std::int32_t>(n / 2)).bytes_received, least, 1e-9);
    }
  }
}

TEST(Cost, RoundsAreLogarithmicWhereTheySayThat) {
  for (std::uint32_t n = 2; n <= kLargest; ++n) {
    for (const std::int32_t root : {std::int32_t{0}, static_cast<std::int32_t>(n / 3)}) {
      SCOPED_TRACE(testing::Message() << n << " ranks, root " << root);
      for (Collective kind : {Collective::kReduce, Collective::kBroadcast, Collective::kGather, Collective::kScatter}) {
        EXPECT_LE(cost_for(kind, "knomial", n, root).rounds, log2_up(n));
      }
      for (Collective kind : {Collective::kReduce, Collective::kBroadcast}) {
        EXPECT_LE(cost_for(kind, "knomial4", n, root).rounds, (log2_up(n) + 1) / 2);
        EXPECT_LE(cost_for(kind, "double_tree", n, root).rounds, log2_up(n) + 1);
        const double sent = kind == Collective::kReduce ? cost_for(kind, "double_tree", n, root).bytes_received
                                                        : cost_for(kind, "double_tree", n, root).bytes_sent;
        EXPECT_LE(sent, 1 + 1e-9);
        EXPECT_EQ(cost_for(kind, "chain", n, root).rounds, n - 1);
        EXPECT_NEAR(cost_for(kind, "chain", n, root).bytes_sent, 1, 1e-9);
      }
      EXPECT_LE(cost_for(Collective::kReduce, "reduce_scatter_gather", n, root).rounds,
                2 * log2_of(std::bit_floor(n)) + 2);
    }
    const std::uint32_t fold = std::has_single_bit(n) ? 0 : 2;
    EXPECT_LE(cost_for(Collective::kAllGather, "bruck", n).rounds, log2_up(n));
    EXPECT_LE(cost_for(Collective::kAllToAll, "bruck", n).rounds, log2_up(n));
    EXPECT_LE(cost_for(Collective::kAllGather, "doubling", n).rounds, log2_of(std::bit_floor(n)) + fold);
    EXPECT_LE(cost_for(Collective::kReduceScatter, "halving", n).rounds, log2_of(std::bit_floor(n)) + fold);
    EXPECT_EQ(cost_for(Collective::kAllReduce, "direct", n).rounds, 2u);
    EXPECT_EQ(cost_for(Collective::kAllReduce, "gather_all", n).rounds, 1u);
    EXPECT_NEAR(cost_for(Collective::kAllReduce, "gather_all", n).bytes_sent, n - 1, 1e-9);
  }
}

TEST(Cost, OfScatterAllgatherNeedsNoReturnToTheRoot) {
  for (std::uint32_t n : {2, 3, 5, 8, 16, 33}) {
    const Program program = build_flat(find_algorithm(Collective::kBroadcast, "scatter_allgather").value(), n, 1);
    for (const Step& step : program.ranks[1].steps) EXPECT_NE(step.kind, StepKind::kRecv);
    EXPECT_LE(cost_for(Collective::kBroadcast, "scatter_allgather", n, 1).bytes_sent, 2);
    EXPECT_LE(cost_for(Collective::kBroadcast, "scatter_allgather", n, 1).bytes_received, 1 + 1e-9);
  }
}

}  // namespace
}  // namespace foldcast::schedule
