#include "offload/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foldcast::offload {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;
using Aggregators = std::map<std::string, std::string>;

TEST(HostList, Expands) {
  EXPECT_EQ(*expand_host_list("node[0-2,7]"), (Names{"node0", "node1", "node2", "node7"}));
  EXPECT_EQ(*expand_host_list("a,b[08-10],c"), (Names{"a", "b08", "b09", "b10", "c"}));
  EXPECT_EQ(*expand_host_list("r[0-1]n[0-1]x"), (Names{"r0n0x", "r0n1x", "r1n0x", "r1n1x"}));
  EXPECT_EQ(*expand_host_list("n[007]"), (Names{"n007"}));
}

TEST(HostList, RefusesNonsense) {
  for (const char* text : {"", ",", "a,", "a,,b", "n[", "n]", "n[]", "n[3-1]", "n[a-b]", "n[0-99999999]", "n[1",
                           "n[-1]", "n[1-]", "[[1]]", "n[99999999999999999999]", "a[0-2000]b[0-2000]"}) {
    EXPECT_FALSE(expand_host_list(text).ok()) << text;
  }
}

TEST(SwitchTopology, ReadsSlurmsSyntax) {
  const auto topology = SwitchTopology::parse(
      "# a cluster\n\nSwitchName=rack0 Nodes=node[0-1] LinkSpeed=100 # first\r\nswitchname=rack1 nodes=node[2,3]\n"
      "SwitchName=spine Switches=rack0,\\\nrack1");
  ASSERT_TRUE(topology.ok()) << topology.status().to_string();
  ASSERT_EQ(topology->switches.size(), 3u);
  EXPECT_EQ(topology->switches[0].parent, 2);
  EXPECT_EQ(topology->switches[1].parent, 2);
  EXPECT_EQ(topology->switches[2].parent, -1);
  EXPECT_THAT(topology->switches[1].nodes, ElementsAre("node2", "node3"));
}

TEST(SwitchTopology, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\nSwitchName=a Colour=red", "line 2: unknown setting \"Colour\""},
      {"SwitchName=a Nodes", "line 1: expected NAME=VALUE"},
      {"Nodes=a", "line 1: no SwitchName"},
      {"SwitchName=a\nSwitchName=a", "line 2: switch a is defined twice"},
      {"SwitchName=a Nodes=n\nSwitchName=b Nodes=n", "line 2: node n is below two switches"},
      {"SwitchName=a Switches=b", "line 1: switch b is defined nowhere"},
      {"SwitchName=c\nSwitchName=a Switches=c\nSwitchName=b Switches=c", "line 3: switch c is already below a"},
      {"SwitchName=a Switches=b\nSwitchName=b Switches=a", "is above itself"},
      {"SwitchName=a Switches=a", "is above itself"},
      {"SwitchName=a Nodes=n[", "line 1: host list"},
  };
  for (const auto& [text, expected] : cases) {
    const auto topology = SwitchTopology::parse(text);
    ASSERT_FALSE(topology.ok()) << text;
    EXPECT_THAT(topology.status().message(), HasSubstr(expected));
  }
  EXPECT_THAT(SwitchTopology::load("/nonexistent/file").status().message(), HasSubstr("/nonexistent/file"));
}

TEST(Aggregators, ParsesAndRefuses) {
  EXPECT_EQ(*parse_aggregators("rack0=10.0.0.1:7000,spine=h:1"),
            (Aggregators{{"rack0", "10.0.0.1:7000"}, {"spine", "h:1"}}));
  EXPECT_TRUE(parse_aggregators("")->empty());
  for (const char* text :
       {"rack0", "=h:1", "a=h", "a=:1", "a=h:", "a=h:99999", "a=h:1,a=h:2", "a=h:x", ",", "a=h:1,,"}) {
    EXPECT_FALSE(parse_aggregators(text).ok()) << text;
  }
  EXPECT_EQ(split_control("[::1]:70")->host, "::1");
}

constexpr const char* kTwoRacks =
    "SwitchName=rack0 Nodes=node[0-3]\nSwitchName=rack1 Nodes=node[4-7]\nSwitchName=spine Switches=rack[0-1]\n";
constexpr const char* kThreeLevels =
    "SwitchName=r0 Nodes=a,b\nSwitchName=r1 Nodes=c,d\nSwitchName=r2 Nodes=e,f\nSwitchName=p0 Switches=r0,r1\n"
    "SwitchName=p1 Switches=r2\nSwitchName=core Switches=p0,p1\nSwitchName=island Nodes=z\n";

struct Case {
  const char* topology;
  const char* aggregators;
  const char* hosts;
  const char* expected;  ///< the tree, or part of the error when it starts with '!'
};

class BuildTree : public ::testing::TestWithParam<Case> {};

TEST_P(BuildTree, Case) {
  const auto topology = SwitchTopology::parse(GetParam().topology);
  ASSERT_TRUE(topology.ok());
  const auto hosts = *expand_host_list(GetParam().hosts);
  const auto tree = build_tree(*topology, *parse_aggregators(GetParam().aggregators), hosts);
  const std::string expected = GetParam().expected;
  if (expected[0] == '!') {
    ASSERT_FALSE(tree.ok()) << tree->describe();
    EXPECT_EQ(tree.status().code(), Code::kUnavailable);
    EXPECT_THAT(tree.status().message(), HasSubstr(expected.substr(1)));
    return;
  }
  ASSERT_TRUE(tree.ok()) << tree.status().to_string();
  EXPECT_EQ(tree->describe(), expected);
  EXPECT_TRUE(tree->validate().ok()) << tree->validate().to_string();
}

INSTANTIATE_TEST_SUITE_P(
    Tables, BuildTree,
    ::testing::Values(Case{kTwoRacks, "rack0=h:1,rack1=h:2,spine=h:3", "node[0-1,4-5]",
                           "spine(rack0(node0 node1) rack1(node4 node5))"},
                      // Order of members decides the order of everything.
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2,spine=h:3", "node4,node0,node5,node1",
                           "spine(rack1(node4 node5) rack0(node0 node1))"},
                      // A switch with one child gives way, at the bottom and at the top.
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2,spine=h:3", "node[0-1],node4",
                           "spine(node4 rack0(node0 node1))"},
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2,spine=h:3", "node[0-2]", "rack0(node0 node1 node2)"},
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2,spine=h:3", "node0,node4", "spine(node0 node4)"},
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2,spine=h:3", "node0", "rack0(node0)"},
                      // Racks only: the first is the root of the others.
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2", "node[0-1,4-5]", "rack0(node0 node1 rack1(node4 node5))"},
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2", "node[4-5,0-1]", "rack1(node4 node5 rack0(node0 node1))"},
                      Case{kTwoRacks, "rack0=h:1,rack1=h:2", "node0,node4", "rack0(node0 node4)"},
                      // Spine only.
                      Case{kTwoRacks, "spine=h:3", "node[0-1,4]", "spine(node0 node1 node4)"},
                      Case{kThreeLevels, "r0=h:1,r1=h:2,r2=h:3,p0=h:4,p1=h:5,core=h:6", "a,b,c,d,e,f",
                           "core(p0(r0(a b) r1(c d)) r2(e f))"},
                      Case{kThreeLevels, "r0=h:1,r1=h:2,r2=h:3,core=h:6", "a,b,c,d,e", "core(e r0(a b) r1(c d))"},
                      Case{kThreeLevels, "r0=h:1,r1=h:2,r2=h:3,p0=h:4", "a,b,c,d,e,f", "p0(r0(a b) r1(c d) r2(e f))"},
                      // One host twice: two members.
                      Case{kTwoRacks, "rack0=h:1", "node0,node0", "rack0(node0 node0)"},
                      Case{kTwoRacks, "rack0=h:1", "node0,node4", "!no aggregator serves switch rack1 of host node4"},
                      Case{kTwoRacks, "", "node0", "!node0"},
                      Case{kTwoRacks, "spine=h:3", "node0,stranger", "!host stranger is not in the topology file"},
                      Case{kThreeLevels, "r0=h:1,island=h:2", "a,b,z", "!no switch joins r0 and island"}));

TEST(BuildTree, DepthAndNames) {
  const auto topology = *SwitchTopology::parse(kThreeLevels);
  const auto aggregators = *parse_aggregators("r0=h:1,r1=h:2,r2=h:3,p0=h:4,core=h:6");
  const Names hosts{"a", "b", "c", "d", "e"};
  const auto tree = *build_tree(topology, aggregators, hosts);
  EXPECT_EQ(tree.depth(), 3u);
  EXPECT_EQ(tree.member_name(4), "member 4 (e)");
  EXPECT_EQ(tree.vertices[0].control, "h:6");
}

TEST(Tree, ValidateFindsEveryDisagreement) {
  const auto topology = *SwitchTopology::parse(kTwoRacks);
  const auto aggregators = *parse_aggregators("rack0=h:1,rack1=h:2,spine=h:3");
  const Names hosts{"node0", "node1", "node4", "node5"};
  const auto good = *build_tree(topology, aggregators, hosts);
  auto tree = good;
  tree.vertices[0].parent = 1;
  EXPECT_FALSE(tree.validate().ok());
  tree = good;
  tree.vertices[1].parent = 2;
  EXPECT_FALSE(tree.validate().ok());
  tree = good;
  tree.parent_of_member[0] = 9;
  EXPECT_FALSE(tree.validate().ok());
  tree = good;
  tree.parent_of_member[0] = 2;
  EXPECT_FALSE(tree.validate().ok());
  tree = good;
  tree.hosts.pop_back();
  EXPECT_FALSE(tree.validate().ok());
  EXPECT_FALSE(Tree{}.validate().ok());
}

}  // namespace
}  // namespace foldcast::offload
