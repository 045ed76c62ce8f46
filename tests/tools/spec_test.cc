#include "tools/lab/spec.h"

#include <gtest/gtest.h>

#include <set>

#include "tools/lab/job.h"

namespace foldcast::tools {
namespace {

TEST(LabSpec, RatesAreReadAndWritten) {
  struct Case {
    const char* text;
    std::uint64_t rate;
    const char* canonical;
  };
  for (const Case& good : {Case{"200mbit", 200'000'000, "200mbit"}, Case{"1.5Gbit", 1'500'000'000, "1.5gbit"},
                           Case{"800kbit", 800'000, "800kbit"}, Case{"2000mbit", 2'000'000'000, "2gbit"}}) {
    auto rate = parse_rate(good.text);
    ASSERT_TRUE(rate.ok()) << good.text;
    EXPECT_EQ(*rate, good.rate);
    EXPECT_EQ(rate_text(*rate), good.canonical);
  }
  for (const char* bad :
       {"", "200", "mbit", "-5mbit", "0mbit", "nanmbit", "infgbit", "1e300gbit", "5 mbit", "5mbits"}) {
    EXPECT_FALSE(parse_rate(bad).ok()) << bad;
  }
}

TEST(LabSpec, RacksAreEvenBlocks) {
  LabSpec spec;
  spec.nodes = 5;
  auto layout = LabLayout::of(spec);
  std::vector<int> racks;
  for (const LabHost& node : layout.nodes) racks.push_back(node.uplink);
  EXPECT_EQ(racks, (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(
      layout.topology_conf().substr(layout.topology_conf().find('\n') + 1),
      "SwitchName=rack0 Nodes=node[0-2]\nSwitchName=rack1 Nodes=node[3-4]\nSwitchName=spine Switches=rack[0-1]\n");
}

TEST(LabSpec, EveryShapeIsATreeWithDistinctAddresses) {
  for (int nodes = 1; nodes <= 250; nodes += nodes < 20 ? 1 : 23) {
    for (int racks = 1; racks <= std::min(nodes, 100); racks += racks < 5 ? 1 : 19) {
      LabSpec spec;
      spec.nodes = nodes;
      spec.racks = racks;
      ASSERT_TRUE(spec.validate().ok()) << nodes << "/" << racks;
      auto layout = LabLayout::of(spec);
      ASSERT_EQ(layout.nodes.size(), static_cast<std::size_t>(nodes));
      EXPECT_EQ(layout.racks(), racks);
      std::set<std::string> addresses, macs, names;
      int roots = 0;
      for (const auto* hosts : {&layout.nodes, &layout.switches}) {
        for (const LabHost& host : *hosts) {
          addresses.insert(host.address);
          macs.insert(host.mac);
          names.insert(host.name);
          roots += host.uplink < 0;
          EXPECT_LT(host.uplink, static_cast<int>(layout.switches.size()));
        }
      }
      auto hosts = layout.nodes.size() + layout.switches.size();
      EXPECT_EQ(addresses.size(), hosts);
      EXPECT_EQ(macs.size(), hosts);
      EXPECT_EQ(names.size(), hosts);
      EXPECT_EQ(roots, 1);
    }
  }
}

TEST(LabSpec, RailsAreSubnetsOfTheirOwn) {
  LabSpec spec;
  spec.rails = 3;
  spec.rail_rates = parse_rail_rates("200mbit,1gbit,unshaped").value();
  ASSERT_TRUE(spec.validate().ok());
  auto layout = LabLayout::of(spec);
  EXPECT_EQ(layout.nodes[2].address_on(0), layout.nodes[2].address);
  EXPECT_EQ(layout.nodes[2].mac_on(0), layout.nodes[2].mac);
  EXPECT_EQ(layout.nodes[2].address_on(2), "10.79.0.3");
  EXPECT_EQ(layout.nodes[2].mac_on(2), "02:fc:02:00:00:03");
  EXPECT_EQ(layout.switches.back().address_on(1), "10.78.255.254");
  EXPECT_EQ(layout.nodes[2].port_on(0), "node2");
  EXPECT_EQ(layout.nodes[2].port_on(1), "node2-r1");
  EXPECT_EQ(spec.node_device(1), "rail1");
  EXPECT_EQ(spec.rate_on(1), 1'000'000'000u);
  EXPECT_EQ(spec.uplink_rate(1), 1'000'000'000u);
  EXPECT_EQ(rate_text(spec.rate_on(2)), "unshaped");
  spec.uplink = 100'000'000;
  EXPECT_EQ(spec.uplink_rate(1), 100'000'000u);
  EXPECT_EQ(LabSpec().node_device(0), "eth0");
}

TEST(LabSpec, NodesMayHaveDifferentNumbersOfRanks) {
  LabSpec spec;
  spec.nodes = 3;
  spec.ranks_per_node = parse_ranks_per_node("3,2,1").value();
  ASSERT_TRUE(spec.validate().ok());
  EXPECT_EQ(spec.ranks(), 6);
  EXPECT_EQ(spec.ranks_on(1), 2);
  spec.ranks_per_node = parse_ranks_per_node("4").value();
  EXPECT_EQ(spec.ranks(), 12);
  for (const char* bad : {"", "3,", ",3", "two", "3;2", "1.5"}) EXPECT_FALSE(parse_ranks_per_node(bad).ok()) << bad;
}

TEST(LabSpec, OneRackHasNoSpine) {
  LabSpec spec;
  spec.nodes = 1;
  spec.racks = 1;
  auto layout = LabLayout::of(spec);
  ASSERT_EQ(layout.switches.size(), 1U);
  EXPECT_FALSE(layout.is_spine(0));
  EXPECT_NE(layout.topology_conf().find("SwitchName=rack0 Nodes=node0\n"), std::string::npos);
}

TEST(LabSpec, WhatCannotBeIsRefusedByName) {
  auto refusal = [](auto change) {
    LabSpec spec;
    change(spec);
    Status status = spec.validate();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_NE(refusal([](LabSpec& s) { s.nodes = 0; }).find("--nodes is 0"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.nodes = 251; }).find("--nodes"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.racks = 9; }).find("--racks is 9"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.mtu = 100; }).find("--mtu"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.ranks_per_node = {-1}; }).find("--ranks-per-node"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.ranks_per_node = {3, 2, 1}; }).find("3 numbers for 8 nodes"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.rails = 9; }).find("--rails is 9"), std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) {
              s.rail_rates = {200'000'000, 200'000'000};
            }).find("2 rates for 1 rails"),
            std::string::npos);
  EXPECT_NE(refusal([](LabSpec& s) { s.uplink = 1; }).find("--uplink"), std::string::npos);
  for (const char* name : {"", "..", "a/b", "-x", "A", "a b"}) {
    EXPECT_NE(refusal([&](LabSpec& s) { s.name = name; }).find("cannot name a lab"), std::string::npos) << name;
  }
}

TEST(Job, CommandsAreShownAsAShellTakesThem) {
  std::vector<std::string> command = {"sh", "-c", "echo 'a b'", "", "x=1"};
  EXPECT_EQ(shell_quoted(command), "sh -c 'echo '\\''a b'\\''' '' x=1");
}

}  // namespace
}  // namespace foldcast::tools
