// What the verifier says of steps on engine groups: order per lane, members, shards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/schedule/program.h"
#include "tests/core/schedule/verdict.h"

namespace foldcast::schedule {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Program with_groups(std::uint32_t ranks, std::size_t groups, const std::function<void(Builder&)>& build) {
  Program program = build_program("", ranks, build);
  for (std::size_t g = 0; g < groups; ++g) {
    Group group{GroupKind::kTree, "tree " + std::to_string(g), {}};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) group.members.push_back(static_cast<std::int32_t>(rank));
    program.groups.push_back(group);
  }
  return program;
}

Builder::GroupStep half(std::uint32_t index, std::uint8_t lane, std::uint32_t group = 0) {
  return {.verb = Verb::kAllReduce,
          .group = group,
          .lane = lane,
          .source = {Space::kInput, index, 2, 1},
          .target = {Space::kOutput, index, 2, 1}};
}

TEST(Verify, TakesGroupCallsInEqualOrder) {
  EXPECT_EQ(error_of(with_groups(3, 1,
                                 [](Builder& builder) {
                                   builder.group(half(0, 0));
                                   builder.group(half(1, 0));
                                 })),
            "accepted");
  EXPECT_EQ(error_of(with_groups(3, 1,
                                 [](Builder& builder) {  // lanes are independent of each other
                                   const bool odd = builder.rank() % 2 != 0;
                                   builder.group(half(odd ? 1 : 0, odd ? 1 : 0));
                                   builder.group(half(odd ? 0 : 1, odd ? 0 : 1));
                                 })),
            "accepted");
}

TEST(Verify, TakesABroadcastAfterAReduction) {
  EXPECT_EQ(error_of(with_groups(
                3, 1,
                [](Builder& builder) {
                  builder.group({.verb = Verb::kReduceScatter, .owners = 1, .source = kInput, .target = kOutput});
                  builder.group({.verb = Verb::kBarrier, .lane = 1});
                  builder.group({.verb = Verb::kBroadcast, .lane = 1, .root = 0, .source = kOutput, .target = kOutput});
                })),
            "accepted");
  EXPECT_THAT(error_of(with_groups(
                  3, 1,
                  [](Builder& builder) {
                    builder.group({.verb = Verb::kReduceScatter, .owners = 1, .source = kInput, .target = kOutput});
                    builder.group({.verb = Verb::kBroadcast, .root = 1, .source = kOutput, .target = kOutput});
                  })),
              AllOf(HasSubstr(at(1, 1)), HasSubstr("nothing was written")));
}

TEST(Verify, CatchesGroupCallsInOtherOrder) {
  EXPECT_THAT(error_of(with_groups(3, 1,
                                   [](Builder& builder) {
                                     const bool last = builder.rank() == 2;
                                     builder.group(half(last ? 1 : 0, 0));
                                     builder.group(half(last ? 0 : 1, 0));
                                   })),
              AllOf(HasSubstr(at(2, 0)), HasSubstr("different calls")));
}

TEST(Verify, CatchesAMissingGroupCall) {
  EXPECT_THAT(error_of(with_groups(3, 1,
                                   [](Builder& builder) {
                                     builder.group(half(0, 0));
                                     if (builder.rank() != 1) builder.group(half(1, 0));
                                   })),
              AllOf(HasSubstr(at(0, 1)), HasSubstr("rank 1 never posts call 1 of tree 0")));
}

TEST(Verify, CatchesGroupsThatWaitForEachOther) {
  EXPECT_THAT(error_of(with_groups(2, 2,
                                   [](Builder& builder) {
                                     const std::uint32_t first_group = builder.rank() == 0 ? 0 : 1;
                                     auto step = half(0, 0, first_group);
                                     builder.group(step);
                                     step.group = 1 - first_group;
                                     step.source.space = Space::kOutput;
                                     builder.group(step);
                                   })),
              HasSubstr("deadlock: "));
}

TEST(Verify, CatchesALaneHeldUpByWhatWaitsBehindIt) {
  // Rank 0 cannot post call 0 before a message that rank 1 sends after call 1. A lane is posted in program order, so
  // call 1 stands behind call 0; on another lane it would not.
  for (std::uint8_t second_lane : {0, 1}) {
    const std::string error = error_of(with_groups(2, 1, [&](Builder& builder) {
      const Chunk one{Space::kScratch, builder.scratch_unit(), 1, 1};
      const Chunk two{Space::kScratch, builder.scratch_unit(), 1, 1};
      const bool receives = builder.rank() == 0;
      if (receives) builder.recv(1, one);
      builder.group({.verb = Verb::kAllReduce, .source = receives ? one : kInput, .target = one});
      builder.group({.verb = Verb::kAllReduce, .lane = second_lane, .source = kInput, .target = two});
      if (!receives) builder.send(0, two);
    }));
    EXPECT_EQ(error.starts_with("deadlock: "), second_lane == 0) << error;
  }
}

TEST(Verify, CatchesShardsOfAPart) {
  EXPECT_THAT(error_of(with_groups(2, 1,
                                   [](Builder& builder) {
                                     for (std::uint32_t index : {0u, 1u}) {
                                       builder.group({.verb = Verb::kReduceScatter,
                                                      .owners = 2,
                                                      .source = {Space::kInput, index, 2, 1},
                                                      .target = {Space::kOutput, index, 2, 1}});
                                       builder.group({.verb = Verb::kAllGather,
                                                      .lane = 1,
                                                      .owners = 2,
                                                      .source = {Space::kOutput, index, 2, 1},
                                                      .target = {Space::kOutput, index, 2, 1}});
                                     }
                                   })),
              HasSubstr("only whole blocks or a whole fragment can be sharded"));
}

TEST(Verify, CatchesBadGroups) {
  EXPECT_THAT(error_of(with_groups(2, 1, [](Builder& builder) { builder.group(half(0, 0, 1)); })),
              HasSubstr("only 1 groups"));
  Program program = with_groups(2, 1, [](Builder& builder) { builder.group(half(0, 0)); });
  program.groups[0].members = {0, 0};
  EXPECT_THAT(error_of(program), HasSubstr("distinct ranks"));
  program.groups[0].members = {0, 2};
  EXPECT_THAT(error_of(program), HasSubstr("distinct ranks"));
  program.groups[0].members = {0};
  EXPECT_THAT(error_of(program), AllOf(HasSubstr(at(1, 0)), HasSubstr("no member of tree 0")));
}

TEST(Verify, CatchesMoreOwnersThanMembers) {
  EXPECT_THAT(error_of(with_groups(
                  2, 1,
                  [](Builder& builder) {
                    builder.group({.verb = Verb::kReduceScatter, .owners = 3, .source = kInput, .target = kOutput});
                  })),
              AllOf(HasSubstr(at(0, 0)), HasSubstr("1 to 2 can own a shard")));
}

Builder::GroupStep whole(Verb verb, std::int32_t root, std::uint16_t owners = 0) {
  return {.verb = verb, .owners = owners, .root = root, .source = kInput, .target = kOutput};
}

/// A collective that is one call of a group.
struct OneCall {
  Collective kind;
  Verb verb;
};
constexpr OneCall kOneCalls[] = {
    {Collective::kAllReduce, Verb::kAllReduce}, {Collective::kReduce, Verb::kReduce},
    {Collective::kBroadcast, Verb::kBroadcast}, {Collective::kReduceScatter, Verb::kReduceScatter},
    {Collective::kAllGather, Verb::kAllGather}, {Collective::kAllToAll, Verb::kAllToAll},
    {Collective::kGather, Verb::kGather},       {Collective::kScatter, Verb::kScatter},
};

TEST(Verify, TakesACollectiveThatIsOneCallOfAGroup) {
  for (const OneCall& call : kOneCalls) {
    for (std::uint32_t n : {1, 2, 3, 5, 8}) {
      const auto root = static_cast<std::int32_t>(n / 2);
      const Program program = with_groups(
          n, 1, [&](Builder& builder) { builder.group(whole(call.verb, root, static_cast<std::uint16_t>(n))); });
      EXPECT_EQ(error_of(program, {call.kind, root}), "accepted") << to_string(call.kind) << ", " << n;
      const auto proof = verify(program, {call.kind, root});
      EXPECT_TRUE(proof.ok() && proof->keeps_order);
    }
  }
}

TEST(Verify, CatchesOneCallOfAnotherVerbOrRoot) {
  for (const OneCall& asked : kOneCalls) {
    for (const OneCall& made : kOneCalls) {
      const Program program = with_groups(3, 1, [&](Builder& builder) { builder.group(whole(made.verb, 1, 3)); });
      EXPECT_EQ(error_of(program, {asked.kind, 1}) == "accepted", asked.kind == made.kind)
          << to_string(made.verb) << " as " << to_string(asked.kind);
      if (asked.kind != made.kind || !has_root(asked.kind)) continue;
      EXPECT_NE(error_of(program, {asked.kind, 2}), "accepted") << to_string(asked.kind);
    }
  }
}

TEST(Verify, CatchesMembersThatNameOtherRoots) {
  for (Verb verb : {Verb::kReduce, Verb::kBroadcast, Verb::kGather, Verb::kScatter}) {
    EXPECT_THAT(
        error_of(with_groups(3, 1, [&](Builder& builder) { builder.group(whole(verb, builder.rank() == 1, 3)); }),
                 {Collective::kReduceScatter}),
        AllOf(HasSubstr(at(1, 0)), HasSubstr("different calls")));
    for (std::int32_t root : {-1, 3}) {
      EXPECT_THAT(error_of(with_groups(3, 1, [&](Builder& builder) { builder.group(whole(verb, root, 3)); }),
                           {Collective::kGather}),
                  HasSubstr("its root must be one of the group's 3 members"));
    }
  }
}

TEST(Verify, CatchesMembersWithoutAShard) {
  for (Verb verb : {Verb::kGather, Verb::kScatter, Verb::kAllToAll}) {
    for (std::uint16_t owners : {0, 2, 4}) {
      EXPECT_THAT(error_of(with_groups(3, 1, [&](Builder& builder) { builder.group(whole(verb, 0, owners)); }),
                           {Collective::kAllToAll}),
                  HasSubstr("each of the group's 3 members owns a shard"));
    }
  }
}

TEST(Verify, CatchesShardsThatAreNoWholeBlocks) {
  // Two ranks' shards of three blocks: the cut between them is rounded.
  const Part two_of_three{0, 3, 3};
  Program program = build_program("", 3, [&](Builder& builder) {
    if (builder.rank() == 2) return;
    const Chunk source = Place{Space::kInput}.at(two_of_three);
    const Chunk target = Place{Space::kOutput}.at(two_of_three);
    builder.group({.verb = Verb::kAllToAll, .owners = 2, .source = source, .target = target});
  });
  program.groups.push_back({GroupKind::kNode, "node 0", {0, 1}});
  EXPECT_THAT(error_of(program, {Collective::kAllToAll}), HasSubstr("only whole blocks"));
}

TEST(Verify, CatchesUseOfBuffersThatARankLacks) {
  const Part first{0, 2, 1};
  const auto program = [&](Space source, Space target) {
    return build_program("", 2, [&](Builder& builder) {
      if (builder.rank() == 0) builder.send(1, Place{source}.at(first));
      if (builder.rank() == 1) builder.recv(0, Place{target}.at(first));
    });
  };
  // Block 0 is not rank 1's: of a scatter it has no output for it, of a gather no output at all.
  EXPECT_THAT(error_of(program(Space::kInput, Space::kOutput), {Collective::kScatter, 0}),
              AllOf(HasSubstr(at(1, 0)), HasSubstr("it uses output[0/2], which the rank does not have")));
  EXPECT_THAT(error_of(program(Space::kInput, Space::kOutput), {Collective::kGather, 0}),
              AllOf(HasSubstr(at(1, 0)), HasSubstr("which the rank does not have")));
  EXPECT_THAT(error_of(program(Space::kInput, Space::kOutput), {Collective::kBroadcast, 1}),
              AllOf(HasSubstr(at(0, 0)), HasSubstr("it uses input[0/2], which the rank does not have")));
}

TEST(Verify, CatchesBlocksThatCross) {
  const Program program = build_program("", 2, [](Builder& builder) {
    const auto self = static_cast<std::uint32_t>(builder.rank());
    const std::uint32_t other = 1 - self;
    builder.set_apart(true);
    builder.send(static_cast<std::int32_t>(other), {Space::kInput, other, 2, 1});
    builder.recv(static_cast<std::int32_t>(other), {Space::kOutput, other, 2, 1});
    builder.copy({Space::kOutput, self, 2, 1}, {Space::kInput, self, 2, 1});
  });
  EXPECT_EQ(error_of(program, {Collective::kAllToAll}), "accepted");
  EXPECT_THAT(error_of(program, {Collective::kReduceScatter}), HasSubstr("for another part"));
}

TEST(Verify, CatchesWhatIsRoundedOnSomeRanksOnly) {
  // The root keeps what it sends from its input as it is, and the others get less.
  const Program program = build_program("", 2, [](Builder& builder) {
    builder.set_rounding(true);
    if (builder.rank() == 0) builder.send(1, kInput);
    if (builder.rank() == 0) builder.copy(kOutput, kInput);
    if (builder.rank() == 1) builder.recv(0, kOutput);
  });
  EXPECT_THAT(error_of(program, {Collective::kBroadcast}), HasSubstr("it is not rounded as on rank 0"));
}

}  // namespace
}  // namespace foldcast::schedule
