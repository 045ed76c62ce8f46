#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "offload/protocol/control.h"
#include "offload/protocol/data.h"

namespace foldcast::offload {
namespace {

using ::testing::HasSubstr;

Tree sample_tree() {
  const auto topology = *SwitchTopology::parse(
      "SwitchName=rack0 Nodes=node[0-1]\nSwitchName=rack1 Nodes=node[2-3]\nSwitchName=spine Switches=rack[0-1]\n");
  const auto hosts = *expand_host_list("node[0-3]");
  return *build_tree(topology, *parse_aggregators("rack0=h:1,rack1=h:2,spine=h:3"), hosts);
}

Join sample_join() {
  Join join;
  join.group = kGroupBit | 7;
  join.incarnation = 3;
  join.job_token = 0x123456789abcdef0;
  join.index = 2;
  join.vertex = 2;
  join.timeout_ms = 1234;
  join.window = 16;
  join.fragment = 65536;
  join.caps = {GroupCaps::kAllDtypes, 3, 65536, 16, 1, true, false};
  join.address = std::string("\0\1binary", 8);
  join.job = "train";
  join.tree = sample_tree();
  return join;
}

std::vector<ControlFrame> samples() {
  Join up = sample_join();
  up.kind = ChildKind::kAggregator;
  up.index = 1;
  up.vertex = 0;
  up.tree.hosts.clear();
  return {sample_join(),
          up,
          Grant{kGroupBit, 4, 1024, 5000, {1, 2, 1024, 4, 2, false, true}, "address"},
          Renew{kGroupBit | 9},
          Leave{kGroupBit | 9},
          Error{kGroupBit, Code::kMismatch, "member 1 called differently"},
          Farewell{kGroupBit, "shutting down"}};
}

TEST(Control, RoundTrips) {
  for (const auto& frame : samples()) {
    const std::string bytes = encode(frame);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded.ok()) << name_of(frame) << ": " << decoded.status().to_string();
    EXPECT_EQ(decoded->index(), frame.index());
    EXPECT_EQ(encode(*decoded), bytes);
  }
  const auto join = std::get<Join>(*decode(encode(sample_join())));
  EXPECT_EQ(join.tree, sample_tree());
  EXPECT_EQ(join.address, sample_join().address);
  EXPECT_TRUE(join.caps.exclusive);
}

TEST(Control, RefusesEveryTruncationAndEveryTail) {
  for (const auto& frame : samples()) {
    const std::string bytes = encode(frame);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size)).ok()) << name_of(frame) << " cut to " << size;
    }
    EXPECT_FALSE(decode(bytes + '\0').ok()) << name_of(frame);
  }
}

TEST(Control, RefusesBadJoins) {
  const auto refused = [](auto change, const char* why) {
    Join join = sample_join();
    change(join);
    const auto decoded = decode(encode(join));
    ASSERT_FALSE(decoded.ok()) << why;
    EXPECT_THAT(decoded.status().message(), HasSubstr(why));
  };
  refused([](Join& join) { join.group = 7; }, "top bit");
  refused([](Join& join) { join.window = 0; }, "window");
  refused([](Join& join) { join.window = 5000; }, "window");
  refused([](Join& join) { join.fragment = 63; }, "bytes");
  refused([](Join& join) { join.fragment = 65; }, "multiple of 8");
  refused([](Join& join) { join.vertex = 9; }, "vertex");
  refused([](Join& join) { join.vertex = 1; }, "not below rack0");
  refused([](Join& join) { join.index = -1; }, "child");
  refused([](Join& join) { join.tree.vertices[2].parent = 2; }, "parent");
  refused([](Join& join) { join.tree.parent_of_member[0] = 77; }, "parent");
}

/// Every decoder is total: whatever comes, it answers, and what it accepts can be encoded again.
TEST(Control, SurvivesGarbage) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto frames = samples();
  std::size_t accepted = 0, refused = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string bytes = encode(frames[random() % frames.size()]);
    if (i % 4 == 0) {
      for (auto& byte : bytes) byte = static_cast<char>(random());
      bytes[0] = static_cast<char>(1 + random() % 6);
    }
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size() + 1);
    const auto decoded = decode(bytes);
    if (!decoded.ok()) {
      ++refused;
      continue;
    }
    ++accepted;
    ASSERT_TRUE(decode(encode(*decoded)).ok());
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(Data, KeysAndSignatures) {
  const Lane lane{kGroupBit | 5, 2};
  EXPECT_EQ(lane.key(Direction::kUp, 1u << 20), (MessageKey{kGroupBit | 5, 2, 1u << 20, 0}));
  EXPECT_EQ(lane.key(Direction::kDown, 3), (MessageKey{kGroupBit | 5, 2, 3, 1}));
  const auto wire =
      on_wire({Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kMax, WireFormat::kExact, 0, 10}, 0x1'ffff'ffff);
  EXPECT_EQ(sequence_of(wire), 0xffff'ffffu);
  EXPECT_EQ(describe(on_wire(wire, 7)), "all_reduce of 10 float32, max (call 7)");
}

TEST(Data, MalformedIsNamed) {
  const Signature good{Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kSum, WireFormat::kExact, 0, 10};
  EXPECT_EQ(malformed(good, 40, 64), "");
  EXPECT_THAT(malformed(good, 42, 64), HasSubstr("whole elements"));
  EXPECT_THAT(malformed(good, 128, 64), HasSubstr("at most 64"));
  Signature bad = good;
  bad.dtype = static_cast<Datatype>(99);
  EXPECT_THAT(malformed(bad, 40, 64), HasSubstr("datatype 99"));
  bad = good;
  bad.op = static_cast<ReduceOp>(90);
  EXPECT_THAT(malformed(bad, 40, 64), HasSubstr("operation 90"));
  bad.op = ReduceOp::kBor;
  EXPECT_THAT(malformed(bad, 40, 64), HasSubstr("bor of float32"));
  bad = good;
  bad.kind = static_cast<Collective>(77);
  EXPECT_THAT(malformed(bad, 40, 64), HasSubstr("kind 77"));
}

}  // namespace
}  // namespace foldcast::offload
