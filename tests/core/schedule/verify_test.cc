#include "core/schedule/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/schedule/program.h"
#include "tests/core/schedule/editing.h"
#include "tests/core/schedule/verdict.h"

namespace foldcast::schedule {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Algorithm entry(std::string_view name) { return find_algorithm(Collective::kAllReduce, name).value(); }

/// The first step of a kind on a rank.
std::uint32_t first(const Schedule& schedule, StepKind kind, std::uint32_t skip = 0) {
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    if (schedule.steps[step].kind == kind && skip-- == 0) return step;
  }
  ADD_FAILURE() << "no such step";
  return 0;
}

void edit(Program& program, std::uint32_t rank, const std::function<void(Edited&)>& damage) {
  Edited edited(program.ranks[rank]);
  damage(edited);
  program.ranks[rank] = edited.schedule();
}

TEST(Verify, CatchesADroppedSend) {
  Program program = build_flat(entry("ring"), 4);
  const std::uint32_t step = first(program.ranks[2], StepKind::kSend, 5);
  edit(program, 2, [&](Edited& edited) { edited.drop(step); });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("rank 3, step "), HasSubstr("rank 2 never sends it")));
}

TEST(Verify, CatchesADroppedReceive) {
  Program program = build_flat(entry("ring"), 4);
  const std::uint32_t step = first(program.ranks[2], StepKind::kRecv, 5);
  edit(program, 2, [&](Edited& edited) { edited.drop(step); });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("rank 1, step "), HasSubstr("rank 2 never receives it")));
}

TEST(Verify, NamesBothStepsOfAHazardInPlace) {
  // Apart, the receive could overtake the send; in place it would overwrite what is being sent.
  Program program = build_flat(entry("ring"), 2);
  edit(program, 1, [](Edited& edited) { edited.edges.erase({0, 4}); });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(1, 4)), HasSubstr("wait for step 0 (send input[1/2]")));
}

TEST(Verify, CatchesOperandsSwappedOnOneRank) {
  for (std::uint32_t n : {2, 4, 7, 8}) {
    Program program = build_flat(entry("recursive_doubling"), n);
    const std::uint32_t rank = n == 7 ? 6 : n - 1;
    const std::uint32_t step = first(program.ranks[rank], StepKind::kReduce);
    edit(program, rank, [&](Edited& edited) { std::swap(edited.steps[step].a, edited.steps[step].b); });
    EXPECT_THAT(error_of(program), AllOf(HasSubstr("rank "), HasSubstr("step "), HasSubstr("in another order")));
  }
}

TEST(Verify, CatchesADuplicatedReduce) {
  for (const Algorithm& algorithm : algorithms_of(Collective::kAllReduce)) {
    Program program = build_flat(algorithm, 4);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const Schedule& schedule = program.ranks[rank];
      std::uint32_t step = 0;
      while (step < schedule.steps.size() && !(schedule.steps[step].kind == StepKind::kReduce &&
                                               (schedule.steps[step].target == schedule.steps[step].a ||
                                                schedule.steps[step].target == schedule.steps[step].b))) {
        ++step;
      }
      if (step == schedule.steps.size()) continue;  // one that does not add to itself can well be run twice
      Program damaged = program;
      edit(damaged, rank, [&](Edited& edited) { edited.duplicate(step); });
      EXPECT_THAT(error_of(damaged), AllOf(HasSubstr(at(rank, step + 1)), HasSubstr("a second time")))
          << algorithm.name;
    }
  }
}

TEST(Verify, CatchesAWrongPeer) {
  Program program = build_flat(entry("halving_doubling"), 8);
  const std::uint32_t step = first(program.ranks[3], StepKind::kSend);
  edit(program, 3, [&](Edited& edited) {
    edited.steps[step].peer = 7;
    edited.renumber();
  });
  EXPECT_THAT(error_of(program), HasSubstr("rank 3, step "));
}

TEST(Verify, CatchesPeersThatDoNotExist) {
  for (std::int32_t peer : {-1, 1, 4, 1000}) {
    Program program = build_flat(entry("ring"), 4);
    edit(program, 1, [&](Edited& edited) { edited.steps[0].peer = peer; });
    EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(1, 0)), HasSubstr("its peer must be another of the 4 ranks")));
  }
}

TEST(Verify, CatchesAWrongChunk) {
  Program program = build_flat(entry("ring"), 4);
  edit(program, 1, [](Edited& edited) { edited.steps[0].a.index = 2; });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(1, 0)), HasSubstr("for another part")));
}

TEST(Verify, CatchesTheSameWrongPartOnBothSides) {
  // Member 1 sends, and 2 takes and adds, the wrong part from the beginning.
  Program program = build_flat(entry("ring"), 3);
  edit(program, 1, [](Edited& edited) { edited.steps[0].a.index = 2; });
  edit(program, 2, [](Edited& edited) {
    edited.steps[1].target.index = 2;
    edited.steps[2].a.index = edited.steps[2].b.index = edited.steps[2].target.index = 2;
  });
  EXPECT_NE(error_of(program), "accepted");
}

TEST(Verify, CatchesOperandsOfUnequalParts) {
  Program program = build_flat(entry("ring"), 3);
  const std::uint32_t step = first(program.ranks[0], StepKind::kReduce);
  edit(program, 0, [&](Edited& edited) { edited.steps[step].b.index = (edited.steps[step].b.index + 1) % 3; });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(0, step)), HasSubstr("sizes differ for some counts")));
}

TEST(Verify, CatchesSwappedOrdinals) {
  Program program = build_flat(entry("ring"), 4);
  const std::uint32_t one = first(program.ranks[2], StepKind::kSend, 1);
  const std::uint32_t two = first(program.ranks[2], StepKind::kSend, 2);
  edit(program, 2, [&](Edited& edited) { std::swap(edited.steps[one].ordinal, edited.steps[two].ordinal); });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(2, one)), HasSubstr("in program order")));
}

TEST(Verify, CatchesAnotherChannel) {
  Program program = build_flat(entry("double_tree"), 5);
  const std::uint32_t step = first(program.ranks[4], StepKind::kSend);
  edit(program, 4, [&](Edited& edited) {
    edited.steps[step].channel = 1;
    edited.renumber();
  });
  EXPECT_THAT(error_of(program), HasSubstr("rank 4"));
}

TEST(Verify, CatchesReadsOfWhatNobodyWrote) {
  Program program = build_program("", 2, [](Builder& builder) {
    builder.scratch_unit();
    builder.reduce(kOutput, kInput, {Space::kScratch, 0, 1, 1});
  });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(0, 0)), HasSubstr("reads scratch0, where nothing was written")));
}

TEST(Verify, CatchesOutputThatOnlyInPlaceHasValues) {
  // Right in place; with buffers apart the output is read before anything is in it.
  Program program = build_program("", 1, [](Builder& builder) {
    builder.scratch_unit();
    builder.copy({Space::kScratch, 0, 1, 1}, kOutput);
    builder.copy(kOutput, {Space::kScratch, 0, 1, 1});
  });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(0, 0)), HasSubstr("reads output, where nothing was written")));
}

TEST(Verify, CatchesWhatIsRightOnlyWithBuffersApart) {
  // Reads the input after the output got a partial sum: harmless only while they are different memory.
  Program program = build_program("", 2, [](Builder& builder) {
    const std::int32_t peer = 1 - builder.rank();
    builder.scratch_unit();
    const Chunk scratch{Space::kScratch, 0, 1, 1};
    builder.send(peer, kInput);
    builder.recv(peer, scratch);
    if (builder.rank() == 0) {
      builder.reduce(kOutput, kInput, scratch);
      builder.reduce(kOutput, kInput, scratch);
    } else {
      builder.reduce(kOutput, scratch, kInput);
    }
  });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(0, 3)), HasSubstr("a second time (in place)")));
}

TEST(Verify, CatchesAnOutputLeftUntouched) {
  Program program = build_program("", 1, [](Builder& builder) {
    builder.copy({Space::kOutput, 0, 2, 1}, {Space::kInput, 0, 2, 1});
  });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("rank 0: no step writes the output"), HasSubstr("from 1/2 to 1/1"),
                                       HasSubstr("nothing was written")));
}

TEST(Verify, CatchesAMissingContribution) {
  Program program = build_program("", 3, [](Builder& builder) { builder.copy(kOutput, kInput); });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(0, 0)), HasSubstr("the contribution of rank 1 is missing")));
}

TEST(Verify, CatchesWritesToTheInput) {
  Program program = build_program("", 2, [](Builder& builder) { builder.copy({Space::kInput, 0, 1, 1}, kOutput); });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(0, 0)), HasSubstr("writes to the input")));
}

TEST(Verify, CatchesScratchBeyondTheSchedules) {
  Program program = build_flat(entry("ring"), 3);
  edit(program, 1, [](Edited& edited) { edited.scratch_units = 0; });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("rank 1, step"), HasSubstr("only 0 scratch units")));
}

TEST(Verify, CatchesDeadlockOfMessages) {
  // Each sends only what it has received.
  Program program = build_program("", 2, [](Builder& builder) {
    const std::int32_t peer = 1 - builder.rank();
    builder.recv(peer, kOutput);
    builder.send(peer, kOutput);
  });
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("deadlock: "), HasSubstr("rank 0, step "), HasSubstr("rank 1, step "),
                                       HasSubstr("waits for")));
}

TEST(Verify, CatchesDeadlockThatOnlyBufferingAvoids) {
  Program program = build_program("", 2, [](Builder& builder) {
    const std::int32_t peer = 1 - builder.rank();
    builder.send(peer, kInput);
    builder.recv(peer, kOutput);  // in place: after the send, which ends when the other's receive is there
  });
  EXPECT_THAT(error_of(program), HasSubstr("deadlock: "));
}

TEST(Verify, CatchesBrokenDependenceLists) {
  const Program whole = build_flat(entry("ring"), 3);
  Program program = whole;
  program.ranks[1].dependences.pop_back();
  EXPECT_THAT(error_of(program), HasSubstr("rank 1: "));
  program = whole;
  ++program.ranks[1].dependences[2];
  EXPECT_THAT(error_of(program), HasSubstr(at(1, 2)));
  program = whole;
  program.ranks[1].dependants[0] = 0;
  EXPECT_THAT(error_of(program), HasSubstr("rank 1, step 0"));
  program = whole;
  program.ranks[1].dependants_begin[1] = 1000;
  EXPECT_THAT(error_of(program), HasSubstr("rank 1: "));
}

TEST(Verify, RefusesNoRanks) { EXPECT_EQ(verify(Program{}, {}).status().code(), Code::kInvalidArgument); }

}  // namespace
}  // namespace foldcast::schedule
