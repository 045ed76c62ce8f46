// Each way to corrupt a program, on every algorithm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "core/schedule/program.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/editing.h"
#include "tests/core/schedule/every_algorithm.h"
#include "tests/core/schedule/verdict.h"

namespace foldcast::schedule {
namespace {

using testing::HasSubstr;

class EveryAlgorithmCorrupted : public testing::TestWithParam<Algorithm> {
 protected:
  Collective kind() const { return GetParam().kind; }
  std::string error_of(const Program& program, std::int32_t root) const {
    const auto proof = verify(program, {kind(), root});
    return proof.ok() ? "accepted" : proof.status().message();
  }

  /// Calls `damage(program, rank, edited, step, root)` for every step of some programs; what it edited is in the
  /// program when `check` looks at it.
  using Damage = std::function<bool(Edited&, std::uint32_t step)>;
  using Check = std::function<void(const std::string& error, const Step& original)>;
  void damage_every_step(const Damage& damage, const Check& check) const {
    for (std::uint32_t n : {2, 3, 5, 6}) {
      if (!takes(kind(), n)) continue;
      const std::int32_t root = roots_of(kind(), n).size() > 1 ? 1 : 0;
      for (const bool in_place : ways_in_place(kind())) {
        for (const bool rounds : {false, true}) {
          const Program whole = build_flat(GetParam(), FlatCall{n, root, in_place, rounds});
          for (std::uint32_t rank = 0; rank < n; ++rank) {
            for (std::uint32_t step = 0; step < whole.ranks[rank].steps.size(); ++step) {
              Edited edited(whole.ranks[rank]);
              if (!damage(edited, step)) continue;
              Program program = whole;
              program.ranks[rank] = edited.schedule();
              SCOPED_TRACE(testing::Message() << n << " ranks, root " << root << (in_place ? ", in place" : "")
                                              << (rounds ? ", rounded" : "") << ", rank " << rank << ", step " << step);
              check(error_of(program, root), whole.ranks[rank].steps[step]);
            }
          }
        }
      }
    }
  }
  static void expect_caught(const std::string& error, const Step& step) {
    EXPECT_THAT(error, testing::AnyOf(HasSubstr("rank "), HasSubstr("deadlock"))) << to_string(step);
  }
};

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithmCorrupted, testing::ValuesIn(every_algorithm()), name_of);

TEST_P(EveryAlgorithmCorrupted, IsAcceptedAfterEditingAlone) {
  damage_every_step([](Edited&, std::uint32_t step) { return step == 0; },
                    [](const std::string& error, const Step&) { EXPECT_EQ(error, "accepted"); });
}

TEST_P(EveryAlgorithmCorrupted, IsCaughtWithoutAnyStep) {
  damage_every_step(
      [](Edited& edited, std::uint32_t step) {
        edited.drop(step);
        return true;
      },
      expect_caught);
}

/// The builder keeps no edge that others imply, and each stands for a conflict: none can be spared.
TEST_P(EveryAlgorithmCorrupted, IsCaughtWithoutAnyDependence) {
  for (std::uint32_t n : {2, 3, 5, 8}) {
    if (!takes(kind(), n)) continue;
    const std::int32_t root = roots_of(kind(), n).back();
    for (const bool in_place : ways_in_place(kind())) {
      for (const bool rounds : {false, true}) {
        const Program whole = build_flat(GetParam(), FlatCall{n, root, in_place, rounds});
        for (std::uint32_t rank = 0; rank < n; ++rank) {
          for (const auto& edge : Edited(whole.ranks[rank]).edges) {
            Program program = whole;
            Edited edited(program.ranks[rank]);
            edited.edges.erase(edge);
            program.ranks[rank] = edited.schedule();
            EXPECT_THAT(error_of(program, root), HasSubstr("nothing makes it wait for step"))
                << n << " ranks: rank " << rank << ", " << edge.first << " -> " << edge.second;
          }
        }
      }
    }
  }
}

TEST_P(EveryAlgorithmCorrupted, IsCaughtWithAnyOtherPeer) {
  damage_every_step(
      [](Edited& edited, std::uint32_t step) {
        if (edited.steps[step].peer < 0) return false;
        edited.steps[step].peer = edited.steps[step].peer == 0 ? 1 : 0;
        edited.renumber();
        return true;
      },
      expect_caught);
}

TEST_P(EveryAlgorithmCorrupted, IsCaughtWithAnotherPartOfTheWhole) {
  damage_every_step(
      [](Edited& edited, std::uint32_t step) {
        Step& damaged = edited.steps[step];
        const Chunk before = damaged.kind == StepKind::kRecv ? damaged.target : damaged.a;
        if (before.span == before.of) return false;
        for (Chunk* chunk : {&damaged.a, &damaged.b, &damaged.target}) {
          const std::uint32_t within = chunk->index % chunk->of;
          const std::uint32_t moved = within + chunk->span < chunk->of ? within + 1 : within - 1;
          if (chunk->of > 1) chunk->index += moved - within;
        }
        return true;
      },
      expect_caught);
}

TEST_P(EveryAlgorithmCorrupted, IsCaughtWhenItReceivesIntoOrAddsTheInput) {
  damage_every_step(
      [](Edited& edited, std::uint32_t step) {
        Step& damaged = edited.steps[step];
        if (damaged.kind != StepKind::kRecv && damaged.kind != StepKind::kReduce) return false;
        Chunk& chunk = damaged.kind == StepKind::kRecv ? damaged.target : damaged.a;
        if (chunk.space == Space::kInput) return false;
        chunk = {Space::kInput, chunk.index % chunk.of, chunk.of, chunk.span};
        return true;
      },
      expect_caught);
}

TEST_P(EveryAlgorithmCorrupted, LosesItsOrderWithSwappedOperands) {
  if (!GetParam().keeps_order || !reduces(kind())) return;
  for (std::uint32_t n : {2, 3, 5, 8}) {
    const std::int32_t root = roots_of(kind(), n).back();
    const Program whole = build_flat(GetParam(), n, root);
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      for (std::uint32_t step = 0; step < whole.ranks[rank].steps.size(); ++step) {
        if (whole.ranks[rank].steps[step].kind != StepKind::kReduce) continue;
        Program program = whole;
        Edited edited(program.ranks[rank]);
        std::swap(edited.steps[step].a, edited.steps[step].b);
        program.ranks[rank] = edited.schedule();
        const auto proof = verify(program, {kind(), root});
        EXPECT_FALSE(proof.ok() && proof->keeps_order) << n << " ranks: rank " << rank << ", step " << step;
      }
    }
  }
}

TEST_P(EveryAlgorithmCorrupted, IsCaughtWithAnotherRoot) {
  if (!has_root(kind()) && kind() != Collective::kSendRecv) return;
  for (std::uint32_t n : {2, 3, 5, 8}) {
    if (!takes(kind(), n)) continue;
    for (const std::int32_t root : roots_of(kind(), n)) {
      for (const std::int32_t other : roots_of(kind(), n)) {
        const std::string error = error_of(build_flat(GetParam(), n, root), other);
        EXPECT_EQ(error == "accepted", root == other) << n << " ranks, root " << root << " as " << other;
      }
    }
  }
}

TEST_P(EveryAlgorithmCorrupted, IsCaughtAsAnotherCollective) {
  for (std::size_t other = 1; other < kCollectiveCount; ++other) {
    const auto asked = static_cast<Collective>(other);
    if (scheduled_as(asked) == kind() || !takes(kind(), 4) || !takes(asked, 4)) continue;
    EXPECT_FALSE(verify(build_flat(GetParam(), 4), {asked, 0}).ok()) << to_string(asked);
  }
}

TEST(Contract, MustFitTheProgram) {
  const Program program = build_flat(find_algorithm(Collective::kReduce, "chain").value(), 3);
  EXPECT_EQ(verify(program, {Collective::kReduce, 3}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(verify(program, {Collective::kReduce, -1}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(verify(program, {Collective::kSendRecv, 0}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(verify(program, {Collective::kNone, 0}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(verify(Program{}, {}).status().code(), Code::kInvalidArgument);
}

TEST(Contract, OfABarrierIsThatOfAnAllReduce) {
  EXPECT_TRUE(verify(build_flat(find_algorithm(Collective::kBarrier, "ring").value(), 3), {Collective::kBarrier}).ok());
  EXPECT_TRUE(
      verify(build_flat(find_algorithm(Collective::kAllGatherV, "ring").value(), 3), {Collective::kAllGatherV}).ok());
}

}  // namespace
}  // namespace foldcast::schedule
