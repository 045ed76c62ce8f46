// One suite for every backend: what transports/transport.h promises of messages. How things end: contract_end_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/transports/contract.h"

namespace foldcast::transports {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Backends, TransportContract, ::testing::ValuesIn(backends()),
                         [](const auto& backend) { return backend.param.name; });

constexpr std::size_t kSizes[] = {0, 1, 7, 4096, 65536, 262144, (1u << 20) + 3, (3u << 20) + 1};
TEST_P(TransportContract, EverySizeArrivesWhetherExpectedOrNot) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  std::uint64_t tag = 0;
  for (std::size_t size : kSizes) {
    for (bool expected : {true, false}) {
      SCOPED_TRACE(testing::Message() << size << " bytes, " << (expected ? "expected" : "unexpected"));
      auto data = random_(size);
      Guarded buffer(size);
      std::uint64_t received = 0;
      auto before = ranks.at(1).counters();
      if (expected) received = ranks.recv(1, 0, key(++tag), buffer.data(), size);
      if (!expected) ++tag;
      auto sent = ranks.send(0, 1, key(tag), data);
      if (!expected) {
        for (auto deadline = Deadline::after(5s); ranks.at(1).counters().unexpected == before.unexpected;) {
          ASSERT_FALSE(deadline.passed());
          ranks.pump();
        }
        received = ranks.recv(1, 0, key(tag), buffer.data(), size);
      }
      Completion completion = ranks.wait(1, received);
      ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
      EXPECT_EQ(completion.bytes, size);
      EXPECT_EQ(completion.signature, kCall);
      EXPECT_TRUE(ranks.wait(0, sent).status.ok());
      EXPECT_TRUE(size == 0 || std::memcmp(buffer.data(), data.data(), size) == 0);
      EXPECT_TRUE(buffer.guards_intact());
      auto after = ranks.at(1).counters();
      EXPECT_EQ(after.bytes_received - before.bytes_received, size);
      EXPECT_EQ(after.messages_received - before.messages_received, 1u);
    }
  }
}

TEST_P(TransportContract, AShorterMessageTellsItsSize) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  for (std::size_t size : kSizes) {
    auto data = random_(size);
    Guarded buffer(size + 100);
    auto received = ranks.recv(1, 0, key(size), buffer.data(), size + 100);
    ranks.send(0, 1, key(size), data);
    EXPECT_EQ(ranks.wait(1, received).bytes, size);
    EXPECT_TRUE(std::all_of(buffer.data() + size, buffer.data() + size + 100, [](auto b) { return b == kGuard; }));
    ranks.pump_for(1ms);
  }
}

TEST_P(TransportContract, EqualKeysMatchInOrder) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  // Sizes on both sides of every threshold, half of them before their receives.
  std::vector<std::size_t> sizes = {8, 2u << 20, 1, 65536, 0, 300000, 9, 2u << 20, 500000, 3};
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<std::uint64_t> sends, receives;
  for (std::size_t size : sizes) {
    data.push_back(random_(size));
    buffers.emplace_back(2u << 20);
  }
  for (std::size_t i = 0; i < 5; ++i) receives.push_back(ranks.recv(1, 0, key(), buffers[i]));
  for (auto& each : data) sends.push_back(ranks.send(0, 1, key(), each));
  ranks.pump_for(20ms);
  for (std::size_t i = 5; i < sizes.size(); ++i) receives.push_back(ranks.recv(1, 0, key(), buffers[i]));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Completion completion = ranks.wait(1, receives[i]);
    ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
    ASSERT_EQ(completion.bytes, sizes[i]) << "message " << i;
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), buffers[i].begin())) << "message " << i;
    EXPECT_TRUE(ranks.wait(0, sends[i]).status.ok());
  }
}

TEST_P(TransportContract, TenThousandMessagesInRandomOrder) {
  constexpr std::uint64_t kMessages = 10000;
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  std::vector<std::uint64_t> tags(kMessages);
  for (std::uint64_t i = 0; i < kMessages; ++i) tags[i] = i;
  std::vector<std::uint64_t> values(kMessages), got(kMessages), receives(kMessages);
  auto post_receive = [&](std::uint64_t tag) {
    receives[tag] = ranks.recv(1, 0, key(tag), reinterpret_cast<std::byte*>(&got[tag]), sizeof got[tag]);
  };
  std::shuffle(tags.begin(), tags.end(), random_.engine());
  for (std::uint64_t i = 0; i < kMessages / 2; ++i) post_receive(tags[i]);
  std::vector<std::uint64_t> order = tags;
  std::shuffle(order.begin(), order.end(), random_.engine());
  std::vector<std::vector<std::byte>> data(kMessages);
  for (std::uint64_t tag : order) {
    data[tag] = random_(sizeof values[tag]);
    std::memcpy(&values[tag], data[tag].data(), sizeof values[tag]);
    ranks.send(0, 1, key(tag), data[tag]);
  }
  ranks.pump_for(50ms);
  for (std::uint64_t i = kMessages / 2; i < kMessages; ++i) post_receive(tags[i]);
  for (std::uint64_t tag = 0; tag < kMessages; ++tag) ASSERT_TRUE(ranks.wait(1, receives[tag]).status.ok());
  EXPECT_EQ(values, got);
  EXPECT_GE(ranks.at(1).counters().unexpected, 1u);
}

TEST_P(TransportContract, AReceiveOfAnySignatureTellsTheMessages) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  auto data = random_(100);
  std::vector<std::byte> first(100), second(100);
  Signature other = kCall;
  other.op = ReduceOp::kMax;
  auto posted = ranks.recv(1, 0, key(1), first, Signature::any());
  ranks.send(0, 1, key(1), data, other);
  ranks.send(0, 1, key(2), data, other);
  EXPECT_EQ(ranks.wait(1, posted).signature, other);
  ranks.pump_for(5ms);
  EXPECT_EQ(ranks.wait(1, ranks.recv(1, 0, key(2), second, Signature::any())).signature, other);
  EXPECT_EQ(first, data);
  EXPECT_EQ(second, data);
}

struct Difference {
  std::string field, theirs, ours;
  Signature signature;
};

std::vector<Difference> differences() {
  std::vector<Difference> all(5, {"", "", "", kCall});
  all[0] = {"kind", "barrier", "all_reduce", kCall};
  all[0].signature.kind = Collective::kBarrier;
  all[1] = {"dtype", "float64", "float32", kCall};
  all[1].signature.dtype = Datatype::kFloat64;
  all[2] = {"op", "max", "sum", kCall};
  all[2].signature.op = ReduceOp::kMax;
  all[3] = {"count", "77", "100", kCall};
  all[3].signature.count = 77;
  all[4] = {"root", "3", "0", kCall};
  all[4].signature.root = 3;
  return all;
}

TEST_P(TransportContract, AMismatchNamesTheFieldAndBothSidesAndTouchesNothing) {
  for (const Difference& difference : differences()) {
    for (std::size_t size : {std::size_t{64}, std::size_t{2} << 20}) {
      for (bool expected : {true, false}) {
        SCOPED_TRACE(testing::Message() << difference.field << " " << size << (expected ? " expected" : " early"));
        Ranks ranks(GetParam(), 2);
        ranks.connect_all();
        auto data = random_(size);
        Guarded buffer(size);
        std::uint64_t received = 0;
        if (expected) received = ranks.recv(1, 0, key(), buffer.data(), size);
        auto sent = ranks.send(0, 1, key(), data, difference.signature);
        if (!expected) ranks.pump_for(10ms);
        if (!expected) received = ranks.recv(1, 0, key(), buffer.data(), size);
        Status status = ranks.wait(1, received).status;
        EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
        for (const std::string& word : {difference.field, difference.theirs, difference.ours, std::string("rank 0")}) {
          EXPECT_THAT(status.message(), HasSubstr(word));
        }
        EXPECT_TRUE(buffer.untouched());
        ranks.wait(0, sent);  // the sender is not left waiting
      }
    }
  }
}

TEST_P(TransportContract, AMismatchIsFoundWhenNoKeysMeet) {
  Signature other = kCall;
  other.count = 50;
  for (bool expected : {true, false}) {
    Ranks ranks(GetParam(), 2);
    ranks.connect_all();
    auto data = random_(8);
    std::vector<std::byte> buffers[3] = {random_(8), random_(8), random_(8)};
    std::vector<std::uint64_t> receives;
    auto post = [&] {
      for (std::uint64_t i = 0; i < 3; ++i) receives.push_back(ranks.recv(1, 0, key(i), buffers[i]));
    };
    auto elsewhere = ranks.recv(1, 0, key(1, 1, 8), buffers[0].data(), 8);
    if (expected) post();
    ranks.send(0, 1, key(1000), data, other);
    ranks.pump_for(10ms);
    if (!expected) post();
    for (auto cookie : receives) EXPECT_EQ(ranks.wait(1, cookie).status.code(), Code::kMismatch);
    EXPECT_FALSE(ranks.finished(1, elsewhere)) << "another call must not be hurt";
  }
}

TEST_P(TransportContract, TooLongAMessageIsAMismatchAndTouchesNothing) {
  for (std::size_t size : {std::size_t{65}, std::size_t{100000}, std::size_t{2} << 20}) {
    for (bool expected : {true, false}) {
      Ranks ranks(GetParam(), 2);
      ranks.connect_all();
      auto data = random_(size);
      Guarded buffer(64);
      std::uint64_t received = 0;
      if (expected) received = ranks.recv(1, 0, key(), buffer.data(), 64);
      ranks.send(0, 1, key(), data);
      if (!expected) ranks.pump_for(10ms);
      if (!expected) received = ranks.recv(1, 0, key(), buffer.data(), 64);
      Status status = ranks.wait(1, received).status;
      EXPECT_EQ(status.code(), Code::kMismatch);
      EXPECT_THAT(status.message(), HasSubstr(std::to_string(size)));
      EXPECT_THAT(status.message(), HasSubstr("64"));
      EXPECT_TRUE(buffer.untouched());
    }
  }
}

TEST_P(TransportContract, AMessageWithTheWrongTokenIsDroppedAndCounted) {
  Ranks ranks(GetParam(), 2, {{.token = 1}, {.token = 2}});
  ranks.connect_all();
  ranks.pump_for(50ms);
  std::uint64_t before = ranks.at(1).counters().dropped;
  for (std::size_t size : kSizes) {
    auto data = random_(size);
    Guarded buffer(size);
    auto received = ranks.recv(1, 0, key(size), buffer.data(), size);
    ranks.wait(0, ranks.send(0, 1, key(size), data));
    for (auto deadline = Deadline::after(5s); ranks.at(1).counters().dropped == before;) {
      ASSERT_FALSE(deadline.passed()) << "never counted";
      ranks.pump();
    }
    before = ranks.at(1).counters().dropped;
    EXPECT_FALSE(ranks.finished(1, received));
    EXPECT_TRUE(buffer.untouched());
  }
  EXPECT_EQ(ranks.at(1).counters().unexpected, 0u);
  EXPECT_EQ(ranks.at(1).counters().messages_received, 0u);
}

TEST_P(TransportContract, MessagesOfAPeerNotYetConnectedWait) {
  Ranks ranks(GetParam(), 2);
  ranks.connect(0, 1);
  std::vector<std::vector<std::byte>> data;
  for (std::size_t size : kSizes) data.push_back(random_(size));
  for (std::size_t i = 0; i < data.size(); ++i) ranks.send(0, 1, key(i), data[i]);
  ranks.pump_for(50ms);
  ranks.connect(1, 0);
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<std::byte> buffer(data[i].size());
    Completion completion = ranks.wait(1, ranks.recv(1, 0, key(i), buffer));
    ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
    EXPECT_EQ(buffer, data[i]);
  }
}

TEST_P(TransportContract, ConnectingTwiceGivesTheSamePeer) {
  Ranks ranks(GetParam(), 3);
  ranks.connect_all();
  auto again = ranks.at(0).connect(ranks.at(1).address(), "rank 1 again");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, ranks.peer(0, 1));
  EXPECT_NE(ranks.peer(0, 1), ranks.peer(0, 2));
  EXPECT_LE(ranks.at(0).address().size(), 4096u);
}

TEST_P(TransportContract, NonsenseAddressesAndPeersAreErrors) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  for (const std::string& address : {std::string(), std::string("nonsense"), std::string(5000, 'x')}) {
    auto peer = ranks.at(0).connect(address, "rank 9");
    ASSERT_FALSE(peer.ok());
    EXPECT_THAT(peer.status().message(), HasSubstr("rank 9"));
  }
  for (Verb verb : {Verb::kSend, Verb::kRecv}) {
    for (std::int32_t peer : {-1, 1000}) {
      EngineCall call;
      call.verb = verb;
      call.peer = peer;
      EXPECT_EQ(ranks.wait(0, ranks.post(0, call)).status.code(), Code::kInvalidArgument);
    }
  }
  EngineCall call;
  call.verb = Verb::kAllReduce;
  call.peer = ranks.peer(0, 1);
  EXPECT_EQ(ranks.wait(0, ranks.post(0, call)).status.code(), Code::kInvalidArgument);
}

TEST_P(TransportContract, ARankSendsToItself) {
  Ranks ranks(GetParam(), 1);
  ranks.connect_all();
  for (std::size_t size : kSizes) {
    for (bool expected : {true, false}) {
      auto data = random_(size);
      std::vector<std::byte> buffer(size);
      std::uint64_t received = 0;
      if (expected) received = ranks.recv(0, 0, key(size), buffer);
      auto sent = ranks.send(0, 0, key(size), data);
      if (!expected) ranks.pump_for(2ms);
      if (!expected) received = ranks.recv(0, 0, key(size), buffer);
      EXPECT_TRUE(ranks.wait(0, received).status.ok());
      EXPECT_TRUE(ranks.wait(0, sent).status.ok());
      EXPECT_EQ(buffer, data);
    }
  }
}

}  // namespace
}  // namespace foldcast::transports
