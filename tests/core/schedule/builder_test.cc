#include "core/schedule/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/dependences.h"
#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Chunk input(std::uint32_t index, std::uint32_t of, std::uint32_t span = 1) {
  return {Space::kInput, index, of, span};
}
constexpr Chunk output(std::uint32_t index, std::uint32_t of, std::uint32_t span = 1) {
  return {Space::kOutput, index, of, span};
}
constexpr Chunk scratch(std::uint32_t unit, std::uint32_t index, std::uint32_t of, std::uint32_t span = 1) {
  return {Space::kScratch, unit * of + index, of, span};
}

std::vector<std::uint32_t> waits_for(const Schedule& schedule, std::uint32_t step) {
  std::vector<std::uint32_t> waits;
  for (std::uint32_t earlier = 0; earlier < schedule.steps.size(); ++earlier) {
    for (std::uint32_t i = schedule.dependants_begin[earlier]; i < schedule.dependants_begin[earlier + 1]; ++i) {
      if (schedule.dependants[i] == step) waits.push_back(earlier);
    }
  }
  EXPECT_EQ(waits.size(), schedule.dependences[step]);
  return waits;
}

TEST(Builder, ReadAfterWriteWaits) {
  Builder builder(0);
  builder.recv(1, output(0, 2));
  builder.send(1, output(0, 2));
  builder.send(1, output(1, 2));
  const Schedule schedule = builder.finish();
  EXPECT_THAT(waits_for(schedule, 1), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 2), IsEmpty());
}

TEST(Builder, WriteAfterReadWaitsAlsoAcrossInputAndOutput) {
  Builder builder(0);
  builder.send(1, input(0, 2));
  builder.send(2, input(1, 2));
  builder.recv(1, output(0, 2));
  EXPECT_THAT(waits_for(builder.finish(), 2), ElementsAre(0));
}

TEST(Builder, WriteAfterWriteWaits) {
  Builder builder(0);
  builder.scratch_unit();
  builder.recv(1, scratch(0, 0, 1));
  builder.recv(2, scratch(0, 0, 1));
  EXPECT_THAT(waits_for(builder.finish(), 1), ElementsAre(0));
}

TEST(Builder, ReadsDoNotWaitForReads) {
  Builder builder(0);
  builder.send(1, input(0, 1));
  builder.send(2, input(0, 1));
  EXPECT_THAT(waits_for(builder.finish(), 1), IsEmpty());
}

TEST(Builder, DifferentCutsCompareExactly) {
  // Part 1 of 3 is [1/3, 2/3): it overlaps parts 1 and 2 of 4, but neither 0 nor 3.
  Builder builder(0);
  builder.recv(1, output(1, 3));
  for (std::uint32_t quarter = 0; quarter < 4; ++quarter) builder.send(1, output(quarter, 4));
  builder.send(1, output(2, 6, 2));
  builder.send(1, output(2, 3));
  const Schedule schedule = builder.finish();
  EXPECT_THAT(waits_for(schedule, 1), IsEmpty());
  EXPECT_THAT(waits_for(schedule, 2), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 3), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 4), IsEmpty());
  EXPECT_THAT(waits_for(schedule, 5), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 6), IsEmpty());
}

TEST(Builder, CutsOfLargeGroupsDoNotOverflow) {
  constexpr std::uint32_t kMany = 0xfffffffbu;
  Builder builder(0);
  builder.recv(1, output(kMany - 1, kMany));
  builder.send(1, output(kMany - 2, kMany - 1));
  builder.send(1, output(kMany - 3, kMany - 1));
  const Schedule schedule = builder.finish();
  EXPECT_THAT(waits_for(schedule, 1), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 2), IsEmpty());
}

TEST(Builder, ScratchUnitsAreApart) {
  Builder builder(0);
  builder.scratch_unit();
  builder.scratch_unit();
  builder.recv(1, scratch(0, 2, 3));
  builder.recv(1, scratch(1, 2, 3));
  builder.reduce(scratch(1, 2, 3), scratch(0, 2, 3), scratch(1, 2, 3));
  const Schedule schedule = builder.finish();
  EXPECT_EQ(schedule.scratch_units, 2u);
  EXPECT_THAT(waits_for(schedule, 1), IsEmpty());
  EXPECT_THAT(waits_for(schedule, 2), ElementsAre(0, 1));
}

TEST(Builder, KeepsNoDependenceThatOthersImply) {
  Builder builder(0);
  builder.recv(1, output(0, 1));
  builder.copy(output(0, 1), input(0, 1));
  builder.send(1, output(0, 1));
  builder.recv(1, output(0, 1));
  const Schedule schedule = builder.finish();
  EXPECT_THAT(waits_for(schedule, 2), ElementsAre(1));
  EXPECT_THAT(waits_for(schedule, 3), ElementsAre(2));
}

TEST(Builder, APartlyOverwrittenAccessStillCounts) {
  Builder builder(0);
  builder.recv(1, output(0, 1));
  builder.recv(2, output(0, 2));
  builder.send(1, output(1, 2));
  EXPECT_THAT(waits_for(builder.finish(), 2), ElementsAre(0));
}

TEST(Builder, ABarrierIsAFence) {
  Builder builder(0);
  builder.send(1, input(0, 2));
  builder.send(1, input(1, 2));
  builder.group({.verb = Verb::kBarrier});
  builder.send(1, input(0, 2));
  builder.recv(1, output(0, 2));
  const Schedule schedule = builder.finish();
  EXPECT_THAT(waits_for(schedule, 2), ElementsAre(0, 1));
  EXPECT_THAT(waits_for(schedule, 3), ElementsAre(2));
  EXPECT_THAT(waits_for(schedule, 4), ElementsAre(3));
}

TEST(Builder, GroupStepsReadTheirSourceAndWriteTheirTarget) {
  Builder builder(0);
  builder.recv(1, output(0, 2));
  builder.group({.verb = Verb::kAllReduce, .source = output(0, 2), .target = output(0, 2)});
  builder.send(1, output(0, 2));
  builder.send(1, output(1, 2));
  const Schedule schedule = builder.finish();
  EXPECT_THAT(waits_for(schedule, 1), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 2), ElementsAre(1));
  EXPECT_THAT(waits_for(schedule, 3), IsEmpty());
}

TEST(Builder, RoundingMakesSendsOfOwnDataWrites) {
  for (bool rounds : {false, true}) {
    Builder builder(0);
    builder.set_rounding(rounds);
    builder.send(1, output(0, 1));
    builder.send(2, output(0, 1));
    builder.group({.verb = Verb::kAllGather, .owners = 1, .source = output(0, 1), .target = output(0, 1)});
    builder.send(1, input(0, 1));
    builder.send(2, input(0, 1));
    const Schedule schedule = builder.finish();
    EXPECT_EQ(schedule.memory.rounds, rounds);
    if (rounds) {
      EXPECT_THAT(waits_for(schedule, 1), ElementsAre(0));
      EXPECT_THAT(waits_for(schedule, 2), ElementsAre(1));
    } else {
      EXPECT_THAT(waits_for(schedule, 1), IsEmpty());
      EXPECT_THAT(waits_for(schedule, 2), ElementsAre(0, 1));
    }
    EXPECT_THAT(waits_for(schedule, 4), ElementsAre(2));  // what is sent from the input stays as it is
  }
}

TEST(Builder, BuffersApartDoNotConflict) {
  Builder builder(0);
  builder.set_apart(true);
  builder.send(1, input(0, 2));
  builder.recv(1, output(0, 2));
  builder.copy(output(1, 2), input(0, 2));
  builder.send(1, output(0, 2));
  const Schedule schedule = builder.finish();
  EXPECT_TRUE(schedule.memory.apart);
  EXPECT_THAT(waits_for(schedule, 1), IsEmpty());
  EXPECT_THAT(waits_for(schedule, 2), IsEmpty());
  EXPECT_THAT(waits_for(schedule, 3), ElementsAre(1));
}

TEST(Builder, OrdersLongSchedulesAsWell) {
  // Beyond the exact reduction of edges, order must still be complete: each step of a chain waits for the one before.
  constexpr std::uint32_t kSteps = 3 * DependenceInference::kExact;
  Builder builder(0);
  builder.scratch_unit();
  for (std::uint32_t step = 0; step < kSteps; ++step) builder.copy(output(0, 1), scratch(0, 0, 1));
  const Schedule schedule = builder.finish();
  ASSERT_EQ(schedule.dependants.size(), kSteps - 1);
  for (std::uint32_t step = 1; step < kSteps; ++step) ASSERT_EQ(schedule.dependants[step - 1], step);
}

TEST(Builder, NumbersMessagesPerPeerAndChannel) {
  Builder builder(0);
  builder.send(1, input(0, 1));
  builder.send(2, input(0, 1));
  builder.send(1, input(0, 1));
  builder.send(1, input(0, 1), 7);
  builder.recv(1, output(0, 1));
  const Schedule schedule = builder.finish();
  std::vector<std::uint32_t> ordinals;
  for (const Step& step : schedule.steps) ordinals.push_back(step.ordinal);
  EXPECT_THAT(ordinals, ElementsAre(0, 0, 1, 0, 0));
}

TEST(Builder, DropsCopiesOfAChunkToItself) {
  Builder builder(0);
  builder.copy(output(1, 4), output(1, 4));
  builder.copy(output(1, 4), input(1, 4));
  EXPECT_EQ(builder.finish().steps.size(), 1u);
}

TEST(Builder, IsEmptyAfterFinish) {
  Builder builder(5);
  builder.scratch_unit();
  builder.send(1, input(0, 1));
  builder.finish();
  EXPECT_EQ(builder.rank(), 5);
  builder.send(1, input(0, 1));
  const Schedule second = builder.finish();
  EXPECT_EQ(second.scratch_units, 0u);
  ASSERT_EQ(second.steps.size(), 1u);
  EXPECT_EQ(second.steps[0].ordinal, 0u);
  const Schedule empty = builder.finish();
  EXPECT_TRUE(empty.steps.empty());
  EXPECT_THAT(empty.dependants_begin, ElementsAre(0));
}

TEST(BuilderDeathTest, RefusesChunksBeyondTheirBuffer) {
  Builder builder(0);
  EXPECT_DEATH(builder.send(1, input(3, 3)), "chunk must lie inside");
  EXPECT_DEATH(builder.send(1, input(0, 3, 4)), "chunk must lie inside");
  EXPECT_DEATH(builder.recv(1, scratch(0, 2, 3, 2)), "chunk must lie inside");
  EXPECT_DEATH(builder.send(1, input(0, 0)), "chunk must lie inside");
  EXPECT_DEATH(builder.send(1, input(0, 3, 0)), "chunk must lie inside");
}

TEST(Footprint, EqualPartsHaveEqualSizesAndOnlyThose) {
  EXPECT_TRUE(same_part(input(1, 3), scratch(4, 1, 3)));
  EXPECT_TRUE(same_part(input(1, 3), output(2, 6, 2)));
  EXPECT_FALSE(same_part(input(0, 3), input(1, 3)));
  // [1/3, 2/3) of 5 elements is 2 of them, [0, 1/3) is 1.
  EXPECT_NE(elements_of(input(1, 3), 5).size(), elements_of(input(0, 3), 5).size());
}

}  // namespace
}  // namespace foldcast::schedule
