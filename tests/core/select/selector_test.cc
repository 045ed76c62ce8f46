#include "core/select/selector.h"

#include <gtest/gtest.h>

namespace foldcast::select {
namespace {

using hierarchy::Layout;

/// 200 Mbit/s links with a tree of two levels.
LinkModel shaped_links() {
  LinkModel model;
  model.latency_us = 100;
  model.bytes_per_us = 24;
  model.tree = true;
  model.tree_description = "spine(rack0 rack1)";
  model.tree_caps = {GroupCaps::kAllDtypes, GroupCaps::kAllOps, 64u << 10, 16, 2, false, true};
  model.tree_latency_us = 250;
  model.tree_bytes_per_us = 24;
  return model;
}

TEST(SizeClass, CoversEverySizeAndIsMonotonic) {
  EXPECT_EQ(size_class(0), size_class(1));
  std::uint32_t last = 0;
  for (std::uint64_t bytes = 0; bytes < 100000; ++bytes) {
    const std::uint32_t own = size_class(bytes);
    ASSERT_GE(own, last);
    ASSERT_LE(own, last + 1);
    ASSERT_GE(class_bytes(own), bytes);
    if (own > 0) {
      ASSERT_LT(class_bytes(own - 1), bytes);
    }
    last = own;
  }
  EXPECT_GE(class_bytes(size_class(std::uint64_t{1} << 40)), std::uint64_t{1} << 40);
}

TEST(Selector, OffloadAtEightNodesHostAtTwo) {
  const Layout eight = Layout::uniform(8, 1), two = Layout::uniform(2, 1);
  Selector wide(eight, 0, shaped_links());
  auto plan = wide.plan_for(4 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ((*plan)->path, Path::kOffload);
  Selector narrow(two, 0, shaped_links());
  plan = narrow.plan_for(4 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->path, Path::kHost);
}

TEST(Selector, ASlowTreeIsRefusedByPrice) {
  const Layout layout = Layout::uniform(8, 1);
  LinkModel model = shaped_links();
  model.tree_bytes_per_us = 3;  // one server with one link takes the contributions of all eight
  Selector selector(layout, 0, model);
  auto plan = selector.plan_for(4 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->path, Path::kHost);
}

TEST(Selector, PoliciesAndForcedPlans) {
  const Layout layout = Layout::uniform(4, 2);
  Selector selector(layout, 1, shaped_links());
  selector.set_policy(PathPolicy::kHost);
  ASSERT_TRUE(selector.force({"double_tree", 0, 0}).ok());
  auto plan = selector.plan_for(1 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->path, Path::kHost);
  EXPECT_NE((*plan)->name.find("double_tree"), std::string::npos);
  ASSERT_TRUE(selector.force({"node+ring", 0, 0}).ok());
  plan = selector.plan_for(1 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->name, "node+ring");
  ASSERT_TRUE(selector.force({}).ok());
  selector.set_policy(PathPolicy::kOffload);  // must not meet the plan that was kept for the old policy
  plan = selector.plan_for(1 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->path, Path::kOffload);
  const Status unknown = selector.force({"rong", 0, 0});
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_NE(unknown.message().find("halving_doubling"), std::string::npos);
}

TEST(Selector, OffloadPolicyWithoutATreeRunsOnTheHostsAndSaysWhy) {
  const Layout layout = Layout::uniform(4, 1);
  LinkModel model = shaped_links();
  model.tree = false;
  model.tree_refusal = "rank 2 (node2): aggregator rack0 is full";
  Selector selector(layout, 0, model);
  selector.set_policy(PathPolicy::kOffload);
  auto choice = selector.choose(1 << 20, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(choice->downgraded);
  EXPECT_EQ(choice->candidates.front().path, Path::kHost);
  auto text = selector.explain(1 << 18, Datatype::kFloat32, ReduceOp::kSum);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("aggregator rack0 is full"), std::string::npos) << *text;
}

TEST(Selector, ExplanationIsTheSameOnEveryRank) {
  const Layout layout = Layout::uniform(3, 2);
  std::string first;
  for (int rank = 0; rank < 6; ++rank) {
    Selector selector(layout, rank, shaped_links());
    auto text = selector.explain(12345, Datatype::kBfloat16, ReduceOp::kMax);
    ASSERT_TRUE(text.ok());
    if (rank == 0) first = *text;
    EXPECT_EQ(*text, first);
  }
  EXPECT_NE(first.find("chosen"), std::string::npos);
}

TEST(Selector, WhatTheTreeCannotReduceIsRefusedByName) {
  const Layout layout = Layout::uniform(8, 1);
  LinkModel model = shaped_links();
  model.tree_caps.ops &= ~(1u << static_cast<unsigned>(ReduceOp::kProd));
  Selector selector(layout, 0, model);
  auto text = selector.explain(1 << 20, Datatype::kFloat32, ReduceOp::kProd);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("does not reduce prod of float32"), std::string::npos) << *text;
}

}  // namespace
}  // namespace foldcast::select
