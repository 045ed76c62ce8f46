#include "hierarchy/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <random>
#include <thread>

namespace foldcast::hierarchy {
namespace {

using testing::ElementsAre;

HostIdentity identity(const std::string& kernel, const std::string& node, const std::string& core_set = "0-1") {
  HostIdentity one;
  one.hostname = node;
  one.kernel = kernel;
  one.node = node;
  one.core_set = core_set;
  return one;
}

TEST(HostIdentity, RoundTrip) {
  HostIdentity one = identity("kernel", std::string("node\0with zero", 14));
  auto parsed = HostIdentity::parse(one.serialize());
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->hostname, one.hostname);
  EXPECT_EQ(parsed->kernel, one.kernel);
  EXPECT_EQ(parsed->node, one.node);
  EXPECT_EQ(parsed->core_set, one.core_set);
  EXPECT_EQ(parsed->cores, 2u);
}

TEST(HostIdentity, CutShortExtendedOrAnotherVersionIsRefused) {
  const std::string whole = identity("kernel", "node").serialize();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(HostIdentity::parse(std::string_view(whole).substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(HostIdentity::parse(whole + "x").ok());
  std::string version = whole;
  version[0] = 9;
  auto parsed = HostIdentity::parse(version);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(parsed.status().message(), testing::HasSubstr("version 9"));
}

TEST(HostIdentity, GarbageIsRefusedOrBounded) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::string whole = identity("kernel", "node").serialize();
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    auto parsed = HostIdentity::parse(bytes);
    if (!parsed.ok()) continue;
    EXPECT_GE(parsed->cores, 1u);
    EXPECT_EQ(parsed->serialize(), bytes) << "two spellings of one identity";
  }
}

TEST(HostIdentity, OfThisProcess) {
  auto one = this_host("renamed");
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  EXPECT_EQ(one->hostname, "renamed");
  EXPECT_EQ(one->kernel.size(), 36u) << "a boot id";
  EXPECT_EQ(one->node.substr(0, one->kernel.size()), one->kernel);
  EXPECT_GT(one->node.size(), one->kernel.size());
  EXPECT_GE(one->cores, 1u);
  auto again = this_host("");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->node, one->node);
  EXPECT_FALSE(again->hostname.empty());
}

TEST(HostIdentity, CoresFollowTheBinding) {
  // In a thread of its own, because a binding would outlast the test; where a process is bound, hwloc asks its main
  // thread.
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one_core;
  CPU_ZERO(&one_core);
  CPU_SET(first, &one_core);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one_core, &one_core), 0);
  auto bound = this_host("");
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->cores, 1u);
}

TEST(Layout, NodesAreNumberedByTheirLowestRank) {
  const std::vector<HostIdentity> ranks = {identity("k1", "b"), identity("k2", "a"), identity("k1", "b", "1-3"),
                                           identity("k1", "c"), identity("k2", "a", "1")};
  const Layout layout = Layout::from(ranks);
  EXPECT_THAT(layout.node_of, ElementsAre(0, 1, 0, 2, 1));
  EXPECT_THAT(layout.local_rank_of, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(layout.nodes, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3)));
  EXPECT_THAT(layout.hostnames, ElementsAre("b", "a", "c"));
  EXPECT_EQ(layout.ranks_per_kernel, 3u) << "two nodes on one machine share its cores";
  EXPECT_EQ(layout.cores, 2u) << "of k2; k1 has 4";
  EXPECT_FALSE(layout.oversubscribed);
  EXPECT_EQ(layout.size(), 5u);
  EXPECT_EQ(layout.smallest_node(), 1u);
}

TEST(HostIdentity, CoreSetsThatAreNoneAreRefused) {
  for (const char* text : {"", "x", "0-", "-1", "3-1", "0,", "00", "1,0", "99999999", " 0", "0-1,1"}) {
    EXPECT_FALSE(HostIdentity::parse(identity("k", "n", text).serialize()).ok()) << text;
  }
}

TEST(Layout, RanksBoundOneToACoreAreNotOversubscribed) {
  const auto oversubscribed = [](std::initializer_list<const char*> core_sets) {
    std::vector<HostIdentity> ranks;
    for (const char* cores : core_sets) ranks.push_back(identity("k", "n", cores));
    return Layout::from(ranks).oversubscribed;
  };
  EXPECT_FALSE(oversubscribed({"0", "1", "2", "7"}));
  EXPECT_TRUE(oversubscribed({"0", "1", "1"}));
  EXPECT_FALSE(oversubscribed({"0-1", "0-1"}));
  EXPECT_TRUE(oversubscribed({"0-1", "0-1", "0-1"}));
  EXPECT_FALSE(oversubscribed({"0-1", "0-1", "4"}));
}

TEST(Layout, Subset) {
  const std::vector<HostIdentity> ranks = {identity("k1", "b"), identity("k2", "a"), identity("k1", "b"),
                                           identity("k1", "c"), identity("k2", "a"), identity("k3", "d", "0")};
  const Layout whole = Layout::from(ranks);
  const std::vector<std::int32_t> some = {4, 2, 1, 0};
  const Layout part = whole.subset(some);
  EXPECT_THAT(part.node_of, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(part.local_rank_of, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(part.nodes, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(part.hostnames, ElementsAre("a", "b"));
  EXPECT_EQ(part.oversubscribed, whole.oversubscribed);
  EXPECT_EQ(part.cores, whole.cores);
  EXPECT_EQ(part.ranks_per_kernel, whole.ranks_per_kernel);
  EXPECT_EQ(whole.subset({}).size(), 0u);
}

TEST(Layout, Uniform) {
  const Layout layout = Layout::uniform(3, 2);
  EXPECT_EQ(layout.size(), 6u);
  EXPECT_EQ(layout.smallest_node(), 2u);
  EXPECT_THAT(layout.nodes, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(layout.local_rank_of, ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_EQ(layout.hostnames.size(), 3u);
}

TEST(Layout, OfNobody) {
  EXPECT_EQ(Layout::from({}).size(), 0u);
  EXPECT_EQ(Layout::from({}).smallest_node(), 0u);
  EXPECT_EQ(Layout::uniform(3, 0).size(), 0u);
}

}  // namespace
}  // namespace foldcast::hierarchy
