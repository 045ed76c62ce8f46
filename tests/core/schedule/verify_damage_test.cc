// The verifier against an independent interpreter, on randomly damaged programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "core/schedule/program.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/editing.h"
#include "tests/core/schedule/interpreter.h"

namespace foldcast::schedule {
namespace {

using testing::HasSubstr;

/// Random damage. Whatever the verifier accepts must compute the right thing in every order an independent interpreter
/// tries; and it must not accept much, since most damage matters.
class Damage {
 public:
  explicit Damage(std::mt19937_64& random) : random_(random) {}

  void to(Program& program) {
    const auto rank = static_cast<std::uint32_t>(random_() % program.ranks.size());
    Edited edited(program.ranks[rank]);
    if (edited.steps.empty()) return;
    const auto index = static_cast<std::uint32_t>(random_() % edited.steps.size());
    Step& step = edited.steps[index];
    switch (random_() % 12) {
      case 0:
        edited.drop(index);
        break;
      case 1:
        edited.duplicate(index);
        break;
      case 2:
        if (!edited.edges.empty()) {
          edited.edges.erase(
              std::next(edited.edges.begin(), static_cast<std::ptrdiff_t>(random_() % edited.edges.size())));
        }
        break;
      case 3:
        std::swap(step.a, step.b);
        break;
      case 4:
        step.peer = static_cast<std::int32_t>(random_() % program.ranks.size());
        break;
      case 5:
        step.peer = static_cast<std::int32_t>(random_() % program.ranks.size());
        edited.renumber();
        break;
      case 6:
        chunk(step).index = static_cast<std::uint32_t>(random_() % (2 * std::uint64_t{chunk(step).of}));
        break;
      case 7:
        chunk(step).span += random_() % 2 == 0 ? 1 : ~0u;
        break;
      case 8:
        chunk(step).space = static_cast<Space>(random_() % 3);
        break;
      case 9:
        swap_ordinals(edited, index);
        break;
      case 10:
        step.channel ^= 1;
        edited.renumber();
        break;
      case 11:
        swap_neighbours(edited, index);
        break;
    }
    program.ranks[rank] = edited.schedule();
  }

 private:
  Chunk& chunk(Step& step) {
    if (step.kind == StepKind::kRecv) return step.target;
    if (step.kind == StepKind::kSend) return step.a;
    const auto which = random_() % 3;
    return which == 0 ? step.a : which == 1 && step.kind == StepKind::kReduce ? step.b : step.target;
  }
  void swap_ordinals(Edited& edited, std::uint32_t index) {
    Step& other = edited.steps[random_() % edited.steps.size()];
    if (other.kind == edited.steps[index].kind) std::swap(other.ordinal, edited.steps[index].ordinal);
  }
  void swap_neighbours(Edited& edited, std::uint32_t index) {
    if (index + 1 == edited.steps.size()) return;
    std::swap(edited.steps[index], edited.steps[index + 1]);
    edited.renumber();
  }

  std::mt19937_64& random_;
};

TEST(Verify, AcceptsOnlyWhatComputesTheSumInEveryOrder) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Damage damage(random);
  constexpr int kPrograms = 4000;
  int accepted = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const Algorithm algorithm =
        algorithms_of(Collective::kAllReduce)[random() % algorithms_of(Collective::kAllReduce).size()];
    const auto n = static_cast<std::uint32_t>(1 + random() % 6);
    Program program = random() % 2 == 0 ? build_flat(algorithm, n)
                                        : build_staged(algorithm, n, static_cast<std::uint32_t>(1 + random() % 3));
    for (auto times = random() % 3; times-- > 0;) damage.to(program);
    damage.to(program);
    const Status verified = verify(program, {}).status();
    if (!verified.ok()) {
      EXPECT_THAT(verified.message(), HasSubstr("rank "));
      continue;
    }
    ++accepted;
    for (int order = 0; order < 6; ++order) {
      const RunOptions options{1 + random() % 40, order % 2 == 0};
      ASSERT_EQ(run_randomly(program, options, random), "")
          << algorithm.name << ", " << n << " members, " << options.count << " elements"
          << (options.in_place ? ", in place" : "");
    }
  }
  EXPECT_LT(accepted, kPrograms / 2) << "most damage changes the result";
  EXPECT_GT(accepted, 0) << "some does not: else the interpreter checked nothing";
}

}  // namespace
}  // namespace foldcast::schedule
