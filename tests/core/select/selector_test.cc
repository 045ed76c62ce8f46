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

CallShape all_reduce(std::uint64_t count, Datatype dtype, ReduceOp op) {
  return {.kind = Collective::kAllReduce, .dtype = dtype, .op = op, .count = count};
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
  auto plan = wide.select(all_reduce(4 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->plan->path, Path::kOffload);
  Selector narrow(two, 0, shaped_links());
  plan = narrow.select(all_reduce(4 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan->path, Path::kHost);
}

TEST(Selector, ASlowTreeIsRefusedByPrice) {
  const Layout layout = Layout::uniform(8, 1);
  LinkModel model = shaped_links();
  model.tree_bytes_per_us = 3;  // one server with one link takes the contributions of all eight
  Selector selector(layout, 0, model);
  auto plan = selector.select(all_reduce(4 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan->path, Path::kHost);
}

TEST(Selector, PoliciesAndForcedPlans) {
  const Layout layout = Layout::uniform(4, 2);
  Selector selector(layout, 1, shaped_links());
  selector.set_policy(PathPolicy::kHost);
  ASSERT_TRUE(selector.force({"double_tree", {0, 0}}).ok());
  auto plan = selector.select(all_reduce(1 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan->path, Path::kHost);
  EXPECT_NE(plan->plan->name.find("double_tree"), std::string::npos);
  ASSERT_TRUE(selector.force({"node+ring", {0, 0}}).ok());
  plan = selector.select(all_reduce(1 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan->name, "node+ring");
  ASSERT_TRUE(selector.force({}).ok());
  selector.set_policy(PathPolicy::kOffload);  // must not meet the plan that was kept for the old policy
  plan = selector.select(all_reduce(1 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan->path, Path::kOffload);
  const Status unknown = selector.force({"rong", {0, 0}});
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
  auto choice = selector.choose(all_reduce(1 << 18, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->downgrade.empty());
  EXPECT_EQ(choice->candidates.front().path, Path::kHost);
  auto text = selector.explain(all_reduce(1 << 18, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("aggregator rack0 is full"), std::string::npos) << *text;
}

TEST(Selector, ExplanationIsTheSameOnEveryRank) {
  const Layout layout = Layout::uniform(3, 2);
  std::string first;
  for (int rank = 0; rank < 6; ++rank) {
    Selector selector(layout, rank, shaped_links());
    auto text = selector.explain(all_reduce(12345, Datatype::kBfloat16, ReduceOp::kMax));
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
  auto text = selector.explain(all_reduce(1 << 20, Datatype::kFloat32, ReduceOp::kProd));
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("does not reduce prod of float32"), std::string::npos) << *text;
}

TEST(Selector, UnknownPlansAreRefusedOnEveryLayoutAndAllKnownOnesNamed) {
  for (const Layout& layout : {Layout::uniform(1, 1), Layout::uniform(1, 4), Layout::uniform(4, 1)}) {
    Selector selector(layout, 0, shaped_links());
    EXPECT_EQ(selector.force({"rong", {0, 0}}).code(), Code::kInvalidArgument);
    EXPECT_TRUE(selector.force({"ring", {0, 0}}).ok()) << "a way between nodes may be named on one node as well";
  }
  const Layout flat = Layout::uniform(4, 1);
  const std::string words = Selector(flat, 0, shaped_links()).force({"rong", {0, 0}}).message();
  EXPECT_NE(words.find("double_tree"), std::string::npos);
  EXPECT_NE(words.find(", tree"), std::string::npos) << words;
}

TEST(Selector, APriceBelongsToItsSizeNotToThePlanItShares) {
  const Layout layout = Layout::uniform(8, 1);
  Selector selector(layout, 0, shaped_links());
  const auto eight = selector.select(all_reduce(2 << 20, Datatype::kFloat32, ReduceOp::kSum));
  const auto sixty_four = selector.select(all_reduce(16 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(eight.ok() && sixty_four.ok());
  EXPECT_EQ(eight->plan, sixty_four->plan);
  EXPECT_NEAR(sixty_four->price_us / eight->price_us, 8, 0.5);
}

TEST(Selector, AClassHasOnePlanWhicheverCallComesFirst) {
  const Layout layout = Layout::uniform(1, 2);
  Selector empty_first(layout, 0, shaped_links()), other(layout, 1, shaped_links());
  ASSERT_TRUE(empty_first.select(all_reduce(0, Datatype::kInt32, ReduceOp::kSum)).ok());
  const auto a = empty_first.select(all_reduce(1, Datatype::kInt32, ReduceOp::kSum));
  const auto b = other.select(all_reduce(1, Datatype::kInt32, ReduceOp::kSum));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->plan->pipelining, b->plan->pipelining);
}

TEST(Selector, AForcedFragmentSizeIsPricedAndPipelined) {
  const Layout layout = Layout::uniform(8, 1);
  Selector selector(layout, 0, shaped_links());
  ASSERT_TRUE(selector.force({"", {64 << 10, 0}}).ok());
  auto selection = selector.select(all_reduce(1 << 18, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->plan->pipelining.fragment_bytes, 64u << 10);
  EXPECT_GT(selection->plan->pipelining.depth, 1u);
}

TEST(Selector, DowngradedCallsAreCounted) {
  const Layout layout = Layout::uniform(4, 1);
  LinkModel model = shaped_links();
  model.tree = false;
  model.tree_refusal = "the aggregator is full";
  Selector selector(layout, 1, model);
  selector.set_policy(PathPolicy::kOffload);
  for (int call = 0; call < 3; ++call)
    ASSERT_TRUE(selector.select_for_call(all_reduce(8, Datatype::kInt32, ReduceOp::kSum)).ok());
  ASSERT_TRUE(selector.select(all_reduce(8, Datatype::kInt32, ReduceOp::kSum)).ok());
  auto text = selector.explain(all_reduce(8, Datatype::kInt32, ReduceOp::kSum));
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("offload was asked for and cannot be had: the aggregator is full (3 calls so far)"),
            std::string::npos)
      << *text;
}

TEST(Selector, TheProgramIsTheChosenPlansOfAllRanks) {
  const Layout layout = Layout::uniform(4, 2);
  Selector selector(layout, 3, shaped_links());
  auto program = selector.program_for(all_reduce(1 << 20, Datatype::kFloat32, ReduceOp::kSum));
  auto selection = selector.select(all_reduce(1 << 20, Datatype::kFloat32, ReduceOp::kSum));
  ASSERT_TRUE(program.ok() && selection.ok());
  EXPECT_EQ(program->name, selection->plan->name);
  ASSERT_EQ(program->ranks.size(), 8u);
  EXPECT_EQ(program->ranks[3].steps.size(), selection->plan->schedule.steps.size());
}

}  // namespace
}  // namespace foldcast::select
