// The verifier against an independent interpreter, on randomly damaged programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/schedule/program.h"
#include "core/schedule/verify.h"
#include "tests/core/schedule/editing.h"
#include "tests/core/schedule/every_algorithm.h"
#include "tests/core/schedule/interpreter.h"
#include "tests/core/schedule/staging.h"

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

class EveryCollective : public testing::TestWithParam<Collective> {};

INSTANTIATE_TEST_SUITE_P(Damaged, EveryCollective,
                         testing::Values(Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                         Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll,
                                         Collective::kGather, Collective::kScatter, Collective::kSendRecv),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST_P(EveryCollective, IsAcceptedOnlyWhereItComputesTheRightThingInEveryOrder) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Damage damage(random);
  const Collective kind = GetParam();
  const bool is_pair = kind == Collective::kSendRecv;
  constexpr int kPrograms = 1500;
  int accepted = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const Algorithm algorithm = algorithms_of(kind)[random() % algorithms_of(kind).size()];
    const auto n = static_cast<std::uint32_t>(is_pair ? 2 : 1 + random() % 6);
    const auto local = static_cast<std::uint32_t>(1 + random() % 3);
    const bool flat = is_pair || random() % 2 == 0;
    const std::uint32_t ranks = flat ? n : n * local;
    const auto roots = roots_of(kind, ranks);
    const std::int32_t root = roots[random() % roots.size()];
    const bool columns = !flat && has_columns(kind) && !algorithm.adjacent && random() % 2 == 0;
    const bool wants_place = random() % 2 == 0;
    const bool rounds = random() % 4 == 0;
    Program program =
        flat ? build_flat(algorithm, FlatCall{ranks, root, wants_place, rounds})
             : build_staged(algorithm, StagedCall{std::vector(n, local), root, columns, wants_place, rounds});
    for (auto times = random() % 3; times-- > 0;) damage.to(program);
    damage.to(program);
    const auto proof = verify(program, {kind, root});
    if (!proof.ok()) {
      EXPECT_THAT(proof.status().message(), HasSubstr("rank "));
      continue;
    }
    ++accepted;
    for (int order = 0; order < 6; ++order) {
      const std::uint64_t count = has_blocks(kind) ? ranks * (1 + random() % 7) : 1 + random() % 40;
      const RunOptions options{{kind, root}, count, order % 2 == 0, proof->keeps_order};
      ASSERT_EQ(run_randomly(program, options, random), "")
          << algorithm.name << ", " << ranks << " ranks, root " << root << ", " << count << " elements"
          << (options.in_place ? ", in place" : "");
    }
  }
  EXPECT_LT(accepted, kPrograms * 2 / 3) << "most damage changes the result";
  EXPECT_GT(accepted, 0) << "some does not: else the interpreter checked nothing";
}

}  // namespace
}  // namespace foldcast::schedule
