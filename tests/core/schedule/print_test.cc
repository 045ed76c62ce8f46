#include "core/schedule/print.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "core/schedule/program.h"
#include "tests/core/schedule/staging.h"

namespace foldcast::schedule {
namespace {

Algorithm ring() { return algorithms_of(Collective::kAllReduce).front(); }

TEST(PrintText, OfARing) {
  EXPECT_EQ(print_text(build_flat(ring(), 2)), R"(ring: 2 ranks
rank 0: 5 steps, 1 scratch unit
    0  send input[0/2] to rank 1, message 0
    1  recv scratch0[1/2] from rank 1, message 0
    2  reduce output[1/2] = scratch0[1/2] op input[1/2]; after 1
    3  send output[1/2] to rank 1, message 1; after 2
    4  recv output[0/2] from rank 1, message 1; after 0
rank 1: 5 steps, 1 scratch unit
    0  send input[1/2] to rank 0, message 0
    1  recv scratch0[0/2] from rank 0, message 0
    2  reduce output[0/2] = scratch0[0/2] op input[0/2]; after 1
    3  send output[0/2] to rank 0, message 1; after 2
    4  recv output[1/2] from rank 0, message 1; after 0
)");
}

TEST(PrintText, OfGroupsAndChannels) {
  EXPECT_EQ(print_text(build_staged(ring(), 1, 2)), R"(node+ring: 2 ranks
group 0: node 0 (node), ranks 0 1
rank 0: 2 steps, 0 scratch units
    0  group 0 reduce_scatter input to output, 2 owners, lane 0
    1  group 0 all_gather output to output, 2 owners, lane 1; after 0
rank 1: 2 steps, 0 scratch units
    0  group 0 reduce_scatter input to output, 2 owners, lane 0
    1  group 0 all_gather output to output, 2 owners, lane 1; after 0
)");
}

TEST(PrintText, OfEveryKindOfStep) {
  Builder builder(0);
  builder.copy({Space::kOutput, 1, 4, 2}, {Space::kInput, 1, 4, 2});
  builder.send(1, {Space::kScratch, 7, 3, 2}, 9);
  builder.group({.verb = Verb::kBroadcast, .group = 2, .root = 1});
  builder.group({.verb = Verb::kBarrier, .lane = 1});
  builder.group({.verb = Verb::kReduce, .root = 3, .target = {Space::kOutput, 0, 1, 1}});
  builder.group({.verb = Verb::kGather, .owners = 2, .root = 1, .source = {Space::kInput, 2, 6, 2}});
  builder.group({.verb = Verb::kScatter, .owners = 2, .root = 0});
  builder.group({.verb = Verb::kAllToAll, .owners = 2});
  const Schedule schedule = builder.finish();
  EXPECT_EQ(to_string(schedule.steps[4]), "group 0 reduce at member 3 input to output, lane 0");
  EXPECT_EQ(to_string(schedule.steps[5]), "group 0 gather at member 1 input[2+2/6] to input, lane 0");
  EXPECT_EQ(to_string(schedule.steps[6]), "group 0 scatter from member 0 input to input, lane 0");
  EXPECT_EQ(to_string(schedule.steps[7]), "group 0 all_to_all input to input, lane 0");
  EXPECT_EQ(to_string(schedule.steps[0]), "copy output[1+2/4] = input[1+2/4]");
  EXPECT_EQ(to_string(schedule.steps[1]), "send scratch2[1+2/3] to rank 1, message 0 of channel 9");
  EXPECT_EQ(to_string(schedule.steps[2]), "group 2 broadcast from member 1 input to input, lane 0");
  EXPECT_EQ(to_string(schedule.steps[3]), "group 0 barrier, lane 1");
}

TEST(PrintGraphviz, OfARing) {
  EXPECT_EQ(print_graphviz(build_flat(ring(), 2)), R"(digraph "ring" {
  rankdir=TB;
  node [shape=box, fontsize=10];
  subgraph cluster_0 {
    label="rank 0";
    r0s0 [label="send input[0/2] to rank 1, message 0"];
    r0s1 [label="recv scratch0[1/2] from rank 1, message 0"];
    r0s2 [label="reduce output[1/2] = scratch0[1/2] op input[1/2]"];
    r0s3 [label="send output[1/2] to rank 1, message 1"];
    r0s4 [label="recv output[0/2] from rank 1, message 1"];
    r0s0 -> r0s4;
    r0s1 -> r0s2;
    r0s2 -> r0s3;
  }
  subgraph cluster_1 {
    label="rank 1";
    r1s0 [label="send input[1/2] to rank 0, message 0"];
    r1s1 [label="recv scratch0[0/2] from rank 0, message 0"];
    r1s2 [label="reduce output[0/2] = scratch0[0/2] op input[0/2]"];
    r1s3 [label="send output[0/2] to rank 0, message 1"];
    r1s4 [label="recv output[1/2] from rank 0, message 1"];
    r1s0 -> r1s4;
    r1s1 -> r1s2;
    r1s2 -> r1s3;
  }
  r0s0 -> r1s1 [style=dashed, constraint=false];
  r0s3 -> r1s4 [style=dashed, constraint=false];
  r1s0 -> r0s1 [style=dashed, constraint=false];
  r1s3 -> r0s4 [style=dashed, constraint=false];
}
)");
}

TEST(PrintGraphviz, DrawsOneDiamondForEachCall) {
  const std::string drawing = print_graphviz(build_staged(ring(), 2, 3));
  auto count = [&](std::string_view what) {
    std::size_t found = 0;
    for (std::size_t at = drawing.find(what); at != std::string::npos; at = drawing.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("shape=diamond"), 2u * 2u);
  EXPECT_EQ(count("dir=both"), 2u * 2u * 3u);
}

}  // namespace
}  // namespace foldcast::schedule
