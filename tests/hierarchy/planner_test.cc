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

void expect_all_verify(const Layout& layout) {
  for (const Composition& composition : compositions_of(layout)) {
    auto program = compose_all(layout, composition);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    Status verified = schedule::verify_all_reduce(*program);
    EXPECT_TRUE(verified.ok()) << program->name << " with " << composition.shards
                               << " shards: " << verified.to_string();
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

TEST(Planner, MoreShardsThanTheSmallestNodeHasIsRefused) {
  auto composed = compose(uneven({3, 1}), {"ring", 2}, 0);
  ASSERT_FALSE(composed.ok());
  EXPECT_EQ(composed.status().code(), Code::kInvalidArgument);
}

TEST(Planner, UnknownNetworkNamesTheKnownOnes) {
  auto composed = compose(Layout::uniform(2, 1), {"rign", 1}, 0);
  ASSERT_FALSE(composed.ok());
  EXPECT_NE(composed.status().message().find("ring"), std::string::npos);
}

TEST(Planner, Names) {
  EXPECT_EQ(name_of(Layout::uniform(4, 1), {"ring", 1}), "ring");
  EXPECT_EQ(name_of(Layout::uniform(4, 2), {"tree", 2}), "node+tree");
  EXPECT_EQ(name_of(Layout::uniform(4, 2), {"tree", 1}), "leader+tree");
  EXPECT_EQ(name_of(Layout::uniform(1, 4), {}), "node");
  EXPECT_EQ(name_of(Layout::uniform(1, 1), {}), "self");
}

}  // namespace
}  // namespace foldcast::hierarchy
