#include <gtest/gtest.h>

#include <random>

#include "simulation.h"

namespace foldcast::offload {
namespace {

using Fault = Simulation::Fault;

struct Tally {
  std::size_t happened = 0, completed = 0, failed = 0;
};

/// Runs `runs` groups, each from its own seed; the seed of a failure replays it exactly.
template <typename Check>
Tally simulate(Fault fault, int runs, Check&& check) {
  std::random_device device;
  const std::uint64_t base = std::uint64_t{device()} << 20;
  Tally tally;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t seed = base + static_cast<std::uint64_t>(i);
    Simulation simulation(seed, fault);
    const std::string problem = simulation.run();
    EXPECT_EQ(problem, "") << "seed " << seed << ", tree " << simulation.tree().describe();
    check(simulation, seed);
    tally.happened += simulation.fault_happened();
    tally.completed += simulation.calls_completed();
    tally.failed += simulation.calls_failed();
    if (::testing::Test::HasFailure()) break;
  }
  return tally;
}

bool some_reason_has(const Simulation& simulation, const std::string& text) {
  for (const auto& reason : simulation.reasons()) {
    if (reason.find(text) != std::string::npos) return true;
  }
  return false;
}

std::string all_reasons(const Simulation& simulation) {
  std::string all;
  for (const auto& reason : simulation.reasons()) all += reason + "; ";
  return all;
}

TEST(Machines, WithoutFaultsEverySumIsExactAndNobodyFails) {
  const auto tally = simulate(Fault::kNone, 3000, [](const Simulation& simulation, std::uint64_t seed) {
    EXPECT_EQ(simulation.calls_failed(), 0u) << "seed " << seed;
    EXPECT_TRUE(simulation.reasons().empty()) << "seed " << seed << ": " << all_reasons(simulation);
  });
  EXPECT_GT(tally.completed, 10'000u);
}

TEST(Machines, DeadMemberIsNamedToAll) {
  const auto tally = simulate(Fault::kMemberDies, 1500, [](const Simulation& simulation, std::uint64_t seed) {
    if (!simulation.fault_happened()) return;
    // Alone in its group it leaves nobody who could be told.
    if (simulation.reasons().empty()) return;
    EXPECT_TRUE(some_reason_has(simulation, simulation.tree().member_name(simulation.victim())) ||
                some_reason_has(simulation, "is full"))
        << "seed " << seed << ": " << all_reasons(simulation);
  });
  EXPECT_GT(tally.happened, 100u);
  EXPECT_GT(tally.failed, 100u);
}

TEST(Machines, StoppedMemberLosesItsLease) {
  const auto tally = simulate(Fault::kMemberStops, 1000, [](const Simulation&, std::uint64_t) {});
  EXPECT_GT(tally.happened, 100u);
  EXPECT_GT(tally.failed, 100u);
}

TEST(Machines, RefusalReachesEveryMember) {
  const auto tally = simulate(Fault::kRefusal, 1500, [](const Simulation& simulation, std::uint64_t seed) {
    if (!simulation.fault_happened()) return;
    EXPECT_EQ(simulation.calls_completed(), 0u) << "seed " << seed;
    EXPECT_TRUE(some_reason_has(simulation, "full")) << "seed " << seed << ": " << all_reasons(simulation);
  });
  EXPECT_GT(tally.happened, 20u);
}

TEST(Machines, LateMemberEndsForming) {
  simulate(Fault::kLate, 500, [](const Simulation& simulation, std::uint64_t seed) {
    if (simulation.tree().parent_of_member.size() == 1) return;  // who waits for nobody is not late
    EXPECT_EQ(simulation.calls_completed(), 0u) << "seed " << seed;
    EXPECT_TRUE(some_reason_has(simulation, simulation.tree().member_name(simulation.victim())) ||
                some_reason_has(simulation, "waiting for"))
        << "seed " << seed << ": " << all_reasons(simulation);
  });
}

TEST(Machines, MismatchNamesBothSides) {
  for (const Fault fault : {Fault::kOtherCount, Fault::kSkippedCall}) {
    std::size_t mismatches = 0;
    simulate(fault, 1000, [&](const Simulation& simulation, std::uint64_t) {
      if (some_reason_has(simulation, ", but ") && some_reason_has(simulation, " called ")) ++mismatches;
    });
    EXPECT_GT(mismatches, 20u);
  }
}

TEST(Machines, LeavingEarlyEndsTheGroupOnlyForThoseWhoNeedIt) {
  const auto tally = simulate(Fault::kLeavesEarly, 1000, [](const Simulation&, std::uint64_t) {});
  EXPECT_GT(tally.happened, 20u);
}

TEST(Machines, ShutdownIsHeardByAll) {
  const auto tally = simulate(Fault::kShutdown, 1000, [](const Simulation&, std::uint64_t) {});
  EXPECT_GT(tally.happened, 100u);
}

}  // namespace
}  // namespace foldcast::offload
