// The contract suite's second half: cancelled calls, lost and forgotten peers, bounds, and much at once.

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/transports/contract.h"

namespace foldcast::transports {
namespace {

using ::testing::HasSubstr;

TEST_P(TransportContract, CancelEndsCallsAndLeavesOthersAlone) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  std::vector<std::byte> doomed(8), fine(8);
  auto data = random_(8);
  auto first = ranks.recv(1, 0, key(1, 5), doomed);
  auto other = ranks.recv(1, 0, key(1, 6), fine);
  ranks.at(1).cancel(5);
  EXPECT_EQ(ranks.wait(1, first).status.code(), Code::kAborted);
  EXPECT_EQ(ranks.wait(1, ranks.recv(1, 0, key(2, 5), doomed)).status.code(), Code::kAborted) << "later posts as well";
  EXPECT_EQ(ranks.wait(1, ranks.send(1, 0, key(2, 5), doomed)).status.code(), Code::kAborted);
  std::uint64_t before = ranks.at(1).counters().dropped;
  ranks.send(0, 1, key(1, 5), data);
  ranks.send(0, 1, key(1, 6), data);
  EXPECT_TRUE(ranks.wait(1, other).status.ok());
  EXPECT_EQ(fine, data);
  EXPECT_EQ(ranks.at(1).counters().dropped, before + 1) << "late messages are dropped";
}

// The receiver cancels at every stage of large transfers; the buffer must be the caller's again at once.
TEST_P(TransportContract, CancelOfLargeReceivesLeavesTheirBuffersAlone) {
  constexpr std::size_t kSize = 4u << 20;
  auto data = random_(kSize);
  for (int stage = 0; stage < 20; ++stage) {
    Ranks ranks(GetParam(), 2);
    ranks.connect_all();
    auto communicator = static_cast<std::uint32_t>(stage + 1);
    std::vector<std::byte> buffer(kSize), early = random_(64);
    ranks.send(0, 1, key(100, communicator), data);
    auto received = ranks.recv(1, 0, key(100, communicator), buffer);
    for (int i = 0; i < stage * 3; ++i) ranks.pump();
    std::atomic<bool> cancelled{false};
    std::thread sender([&] {
      // The other side is alive and polls while this one cancels.
      Completion out[4];
      while (!cancelled) ranks.at(0).poll(out);
    });
    ranks.at(1).cancel(communicator);
    std::fill(buffer.begin(), buffer.end(), kGuard);
    cancelled = true;
    sender.join();
    ranks.pump_for(2ms);
    EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](auto b) { return b == kGuard; })) << "stage " << stage;
    EXPECT_TRUE(ranks.finished(1, received));
  }
}

TEST_P(TransportContract, ADestroyedPeerFailsItsCallsAndOnlyThose) {
  Ranks ranks(GetParam(), 3);
  ranks.connect_all();
  ranks.pump_for(50ms);
  std::vector<std::byte> doomed(8), fine(8);
  auto data = random_(8);
  auto lost = ranks.recv(0, 1, key(1), doomed);
  auto kept = ranks.recv(0, 2, key(1), fine);
  ranks.destroy(1);
  Completion completion = ranks.wait(0, lost, 1000ms);
  EXPECT_EQ(completion.status.code(), Code::kPeerFailed) << completion.status.to_string();
  EXPECT_THAT(completion.status.message(), HasSubstr("rank 1"));
  EXPECT_EQ(ranks.wait(0, ranks.recv(0, 1, key(2), doomed)).status.code(), Code::kPeerFailed);
  EXPECT_EQ(ranks.wait(0, ranks.send(0, 1, key(2), doomed)).status.code(), Code::kPeerFailed);
  ranks.send(2, 0, key(1), data);
  EXPECT_TRUE(ranks.wait(0, kept).status.ok());
  EXPECT_EQ(fine, data);
}

TEST_P(TransportContract, WhatWasSentBeforeTheEndStillArrives) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  ranks.pump_for(20ms);
  std::vector<std::vector<std::byte>> data;
  const std::size_t eager = GetParam().eager;
  for (std::size_t size : {std::size_t{1}, std::size_t{8}, eager / 16, eager, eager, std::size_t{100}, eager}) {
    data.push_back(random_(size));
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    auto sent = ranks.send(0, 1, key(i), data[i]);
    ASSERT_TRUE(ranks.wait(0, sent).status.ok());
  }
  ranks.destroy(0);
  ranks.pump_for(50ms);
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<std::byte> buffer(data[i].size());
    Completion completion = ranks.wait(1, ranks.recv(1, 0, key(i), buffer));
    ASSERT_TRUE(completion.status.ok()) << i << ": " << completion.status.to_string();
    EXPECT_EQ(buffer, data[i]);
  }
  std::vector<std::byte> none(1);
  EXPECT_EQ(ranks.wait(1, ranks.recv(1, 0, key(99), none)).status.code(), Code::kPeerFailed);
}

TEST_P(TransportContract, DisconnectAbortsAndForgets) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  ranks.pump_for(20ms);
  std::vector<std::byte> buffer(8);
  auto received = ranks.recv(0, 1, key(1), buffer);
  ranks.at(0).disconnect(ranks.peer(0, 1));
  EXPECT_EQ(ranks.wait(0, received).status.code(), Code::kAborted);
  EXPECT_EQ(ranks.wait(0, ranks.send(0, 1, key(1), buffer)).status.code(), Code::kInvalidArgument);
  ranks.at(0).disconnect(ranks.peer(0, 1));  // twice is harmless
  ranks.pump_for(5ms);
}

TEST_P(TransportContract, UnexpectedMessagesAreBoundedAndTheirReceivesFail) {
  Ranks ranks(GetParam(), 2, {{.token = 1, .unexpected_bytes = 64 << 10}});
  ranks.connect_all();
  auto data = random_(8192);
  std::vector<std::uint64_t> sends;
  for (std::uint64_t i = 0; i < 20; ++i) sends.push_back(ranks.send(0, 1, key(i), data));
  for (auto sent : sends) EXPECT_TRUE(ranks.wait(0, sent).status.ok());
  for (auto deadline = Deadline::after(5s); ranks.at(1).counters().unexpected < 20;) {
    ASSERT_FALSE(deadline.passed());
    ranks.pump();
  }
  int arrived = 0, exhausted = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::vector<std::byte> buffer(8192);
    Status status = ranks.wait(1, ranks.recv(1, 0, key(i), buffer)).status;
    EXPECT_TRUE(!status.ok() || buffer == data);
    arrived += status.ok();
    exhausted += status.code() == Code::kResourceExhausted;
  }
  EXPECT_EQ(arrived, 7);  // each is reckoned at a little more than its bytes
  EXPECT_EQ(exhausted, 13);
  EXPECT_EQ(ranks.at(1).counters().dropped, 13u);
}

TEST_P(TransportContract, FivePeersAllToAll) {
  constexpr int kRanks = 5;
  Ranks ranks(GetParam(), kRanks);
  ranks.connect_all();
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<std::pair<int, std::uint64_t>> receives;
  const std::size_t sizes[] = {5, 70000, 300001};
  data.reserve(kRanks * kRanks * 3);
  buffers.reserve(kRanks * kRanks * 3);
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      for (std::size_t size : sizes) {
        data.push_back(random_(size));
        buffers.emplace_back(size);
        if ((from + to) % 2 == 0) receives.emplace_back(to, ranks.recv(to, from, key(size), buffers.back()));
        ranks.send(from, to, key(size), data.back());
        if ((from + to) % 2 == 1) receives.emplace_back(to, ranks.recv(to, from, key(size), buffers.back()));
      }
    }
  }
  for (auto [rank, cookie] : receives) {
    Completion completion = ranks.wait(rank, cookie);
    ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
  }
  EXPECT_EQ(data, buffers);
}

TEST_P(TransportContract, BothDirectionsAtOnceWithLargeMessages) {
  Ranks ranks(GetParam(), 2);
  ranks.connect_all();
  constexpr std::size_t kSize = 8u << 20;
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<std::uint64_t> receives[2], sends[2];
  for (std::size_t size : {kSize, kSize, std::size_t{65536}, std::size_t{65536}}) {
    data.push_back(random_(size));
    buffers.emplace_back(size);
    buffers.emplace_back(size);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (int rank : {0, 1}) sends[rank].push_back(ranks.send(rank, 1 - rank, key(i), data[i]));
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (int rank : {0, 1}) {
      receives[rank].push_back(ranks.recv(rank, 1 - rank, key(i), buffers[2 * i + static_cast<std::size_t>(rank)]));
    }
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (int rank : {0, 1}) {
      ASSERT_TRUE(ranks.wait(rank, receives[rank][i]).status.ok());
      ASSERT_TRUE(ranks.wait(rank, sends[rank][i]).status.ok());
      EXPECT_EQ(buffers[2 * i + static_cast<std::size_t>(rank)], data[i]);
    }
  }
}

}  // namespace
}  // namespace foldcast::transports
