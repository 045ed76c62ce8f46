#include "hierarchy/planner.h"

#include <gtest/gtest.h>

#include "core/schedule/verify.h"

namespace foldcast::hierarchy {
namespace {

Layout uneven(const std::vector<int>& sizes) {
  std::vector<HostIdentity> ranks;
  for (std::size_t node = 0; node < sizes.size(); ++node) {
    for (int i = 0; i < sizes[node]; ++i) {
      HostIdentity identity;
      identity.hostname = "node" + std::to_string(node);
      identity.kernel = identity.node = identity.hostname;
      ranks.push_back(identity);
    }
  }
  return Layout::from(ranks);
}

using Form = Composition::Form;

constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kBarrier,       Collective::kReduce,
                                 Collective::kBroadcast, Collective::kReduceScatter, Collective::kAllGather,
                                 Collective::kAllToAll,  Collective::kGather,        Collective::kScatter};

/// Every composition of every collective, from and to every root.
void expect_all_verify(const Layout& layout) {
  for (Collective kind : kKinds) {
    const std::int32_t roots = has_root(kind) ? static_cast<std::int32_t>(layout.size()) : 1;
    for (const Composition& composition : compositions_of(layout, kind)) {
      for (std::int32_t root = 0; root < roots; ++root) {
        for (bool in_place : {false, true}) {
          auto program = compose_all(layout, {kind, root, in_place, false}, composition);
          ASSERT_TRUE(program.ok()) << program.status().to_string();
          const auto proof = schedule::verify(*program, {kind, root});
          EXPECT_TRUE(proof.ok()) << to_string(kind) << " as " << program->name << ", root " << root
                                  << (in_place ? ", in place: " : ": ") << proof.status().to_string();
        }
      }
    }
  }
}

TEST(Planner, EveryCompositionOfUniformLayoutsVerifies) {
  for (std::uint32_t nodes : {1, 2, 3, 5, 7, 8, 16}) {
    for (std::uint32_t local : {1, 2, 3, 4}) {
      SCOPED_TRACE(testing::Message() << nodes << " nodes x " << local);
      expect_all_verify(Layout::uniform(nodes, local));
    }
  }
}

TEST(Planner, EveryCompositionOfUnevenLayoutsVerifies) {
  expect_all_verify(uneven({3, 2, 1}));
  expect_all_verify(uneven({1, 4}));
  expect_all_verify(uneven({2, 3, 2, 5}));
}

TEST(Planner, InPlaceAllToAllVerifies) {
  for (const Layout& layout :
       {Layout::uniform(4, 1), Layout::uniform(3, 2), uneven({3, 2, 1}), Layout::uniform(1, 4)}) {
    for (const Composition& composition : compositions_of(layout, Collective::kAllToAll)) {
      auto program = compose_all(layout, {Collective::kAllToAll, 0, true, false}, composition);
      ASSERT_TRUE(program.ok()) << program.status().to_string();
      const auto proof = schedule::verify(*program, {Collective::kAllToAll, 0});
      EXPECT_TRUE(proof.ok()) << program->name << ": " << proof.status().to_string();
    }
  }
}

TEST(Planner, RanksDealtRoundRobinVerify) {
  std::vector<HostIdentity> ranks(6);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].hostname = ranks[rank].kernel = ranks[rank].node = "node" + std::to_string(rank % 2);
  }
  const Layout layout = Layout::from(ranks);
  EXPECT_FALSE(is_consecutive(layout));
  expect_all_verify(layout);
}

TEST(Planner, MoreShardsThanTheSmallestNodeHasIsRefused) {
  auto composed = compose(uneven({3, 1}), {}, {Form::kShards, "ring", 2}, 0);
  ASSERT_FALSE(composed.ok());
  EXPECT_EQ(composed.status().code(), Code::kInvalidArgument);
}

TEST(Planner, UnknownNetworkNamesTheKnownOnes) {
  auto composed = compose(Layout::uniform(2, 1), {}, {Form::kFlat, "rign", 1}, 0);
  ASSERT_FALSE(composed.ok());
  EXPECT_NE(composed.status().message().find("ring"), std::string::npos);
}

TEST(Planner, Names) {
  EXPECT_EQ(name_of(Layout::uniform(4, 1), {Form::kFlat, "ring", 1}), "ring");
  EXPECT_EQ(name_of(Layout::uniform(4, 2), {Form::kShards, "tree", 2}), "node+tree");
  EXPECT_EQ(name_of(Layout::uniform(4, 2), {Form::kLeaders, "tree", 1}), "leader+tree");
  EXPECT_EQ(name_of(Layout::uniform(1, 4), {Form::kNode, {}, 1}), "node");
  EXPECT_EQ(name_of(Layout::uniform(1, 1), {}), "self");
}

}  // namespace
}  // namespace foldcast::hierarchy
