// Messages over several rails once their speeds are known. Before that: the contract suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/transports/contract.h"
#include "transports/striped/striped.h"

namespace foldcast::transports {
namespace {

using ::testing::HasSubstr;

/// A rail whose queue is full for every other post.
class Reluctant final : public Transport {
 public:
  explicit Reluctant(std::unique_ptr<Transport> rail) : rail_(std::move(rail)) {}
  std::string address() const override { return rail_->address(); }
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override {
    return rail_->connect(address, name);
  }
  void disconnect(std::int32_t peer) override { rail_->disconnect(peer); }
  TransportCounters counters() const override { return rail_->counters(); }
  Posted post(const EngineCall& call, std::uint64_t cookie) override {
    ++posts;
    return posts % 2 == 1 ? Posted::kRetry : rail_->post(call, cookie);
  }
  std::size_t poll(std::span<Completion> out) override { return rail_->poll(out); }
  int descriptor() const override { return rail_->descriptor(); }
  bool arm() override { return rail_->arm(); }
  void cancel(std::uint32_t communicator) override { rail_->cancel(communicator); }

  std::uint64_t posts = 0;

 private:
  std::unique_ptr<Transport> rail_;
};

class Striped : public ::testing::Test {
 protected:
  /// Ranks with `rails` rails each, whose transports stay in view.
  Ranks make(int ranks, std::size_t rails, bool reluctant = false) {
    std::vector<std::shared_ptr<InprocNetwork>> networks;
    for (std::size_t rail = 0; rail < rails; ++rail) networks.push_back(make_inproc_network());
    const Backend backend{"striped", [&](int count, const std::vector<TransportOptions>&) {
                            std::vector<std::unique_ptr<Transport>> made;
                            for (int i = 0; i < count; ++i) {
                              std::vector<std::unique_ptr<Transport>> own;
                              rails_of_.emplace_back();
                              for (const auto& network : networks) {
                                own.push_back(make_inproc(network, {.token = 42}));
                                if (reluctant) own.back() = std::make_unique<Reluctant>(std::move(own.back()));
                                rails_of_.back().push_back(own.back().get());
                              }
                              made.push_back(*StripedTransport::create(std::move(own)));
                              striped_.push_back(static_cast<StripedTransport*>(made.back().get()));
                            }
                            return made;
                          }};
    Ranks made(backend, ranks);
    made.connect_all();
    return made;
  }
  void set_speeds(const std::vector<double>& speeds, double message_us = 10) {
    for (StripedTransport* one : striped_) one->set_speeds(speeds, message_us);
  }
  std::uint64_t sent(int rank, std::size_t rail) const {
    return rails_of_[static_cast<std::size_t>(rank)][rail]->counters().bytes_sent;
  }
  /// One message from 0 to 1, which must arrive as it was.
  void pass(Ranks& ranks, std::size_t bytes, std::uint64_t tag) {
    const auto data = random_(bytes);
    Guarded buffer(bytes);
    const auto received = ranks.recv(1, 0, key(tag), buffer.data(), bytes);
    const auto posted = ranks.send(0, 1, key(tag), data);
    const Completion completion = ranks.wait(1, received);
    ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
    EXPECT_EQ(completion.bytes, bytes);
    EXPECT_EQ(completion.signature, kCall);
    EXPECT_TRUE(ranks.wait(0, posted).status.ok());
    EXPECT_TRUE(bytes == 0 || std::memcmp(buffer.data(), data.data(), bytes) == 0);
    EXPECT_TRUE(buffer.guards_intact());
  }

  Bytes random_;
  std::vector<StripedTransport*> striped_;
  std::vector<std::vector<Transport*>> rails_of_;
};

TEST_F(Striped, LargeMessagesAreCutByTheSpeeds) {
  auto ranks = make(2, 3);
  set_speeds({3, 0, 1});
  pass(ranks, 1u << 20, 1);
  EXPECT_EQ(sent(0, 0), 786432u);
  EXPECT_EQ(sent(0, 1), 0u);
  EXPECT_EQ(sent(0, 2), 262144u);
}

TEST_F(Striped, SmallMessagesTakeTheFastest) {
  auto ranks = make(2, 2);
  set_speeds({100, 300}, 10);
  // Below 10 us / (1/300 - 1/400 us a byte) = 12000 bytes another message costs more than it saves.
  pass(ranks, 11000, 1);
  pass(ranks, 0, 2);
  EXPECT_EQ(sent(0, 0), 0u);
  EXPECT_EQ(sent(0, 1), 11000u);
  pass(ranks, 13000, 3);
  EXPECT_GT(sent(0, 0), 2000u);
}

TEST_F(Striped, EverySizeArrivesOverEverySplit) {
  auto ranks = make(2, 3);
  std::uint64_t tag = 0;
  for (const auto& speeds : {std::vector<double>{5, 2, 1}, {0, 0, 1}, {1, 1, 1}, {1e-3, 1e3, 7}}) {
    set_speeds(speeds, 0);
    for (std::size_t bytes : {0, 1, 63, 64, 65, 191, 192, 193, 4097, 65536, 1000003}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, speeds " << speeds[0] << " " << speeds[1] << " "
                                      << speeds[2]);
      pass(ranks, bytes, ++tag);
    }
  }
}

TEST_F(Striped, ManyMessagesWithEqualKeysKeepTheirOrder) {
  auto ranks = make(2, 2);
  set_speeds({2, 1}, 0);
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<std::uint64_t> receives;
  for (std::size_t i = 0; i < 200; ++i) data.push_back(random_(1000));
  for (const auto& each : data) ranks.send(0, 1, key(), each);
  for (const auto& each : data) buffers.emplace_back(each.size());
  for (auto& each : buffers) receives.push_back(ranks.recv(1, 0, key(), each));
  for (std::size_t i = 0; i < data.size(); ++i) {
    ASSERT_TRUE(ranks.wait(1, receives[i]).status.ok());
    EXPECT_EQ(buffers[i], data[i]) << "message " << i;
  }
}

TEST_F(Striped, AFullQueueOfARailIsWaitedFor) {
  auto ranks = make(2, 2, true);
  set_speeds({1, 1}, 0);
  for (std::uint64_t tag = 1; tag <= 20; ++tag) pass(ranks, 5000, tag);
  EXPECT_GT(static_cast<Reluctant*>(rails_of_[0][0])->posts, 20u) << "none was refused";
}

TEST_F(Striped, ACutMessageOfAnotherSizeIsAMismatch) {
  auto ranks = make(2, 2);
  set_speeds({1, 1}, 0);
  const auto data = random_(5000);
  std::vector<std::byte> buffer(6000);
  const auto received = ranks.recv(1, 0, key(), buffer);
  ranks.send(0, 1, key(), data);
  const Completion completion = ranks.wait(1, received);
  EXPECT_EQ(completion.status.code(), Code::kMismatch) << completion.status.to_string();
  EXPECT_THAT(completion.status.message(), HasSubstr("were expected"));
}

TEST_F(Striped, AnotherCallsMessageIsAMismatchOnce) {
  auto ranks = make(2, 2);
  set_speeds({1, 1}, 0);
  const auto data = random_(5000);
  std::vector<std::byte> buffer(5000, kGuard);
  const auto received = ranks.recv(1, 0, key(), buffer);
  Signature other = kCall;
  other.op = ReduceOp::kMax;
  ranks.send(0, 1, key(), data, other);
  EXPECT_EQ(ranks.wait(1, received).status.code(), Code::kMismatch);
  EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](std::byte b) { return b == kGuard; }));
  ranks.pump_for(5ms);  // Ranks sees to it that each call completes once
}

TEST_F(Striped, CancelEndsAllPartsOnce) {
  auto ranks = make(2, 2, true);
  set_speeds({1, 1}, 0);
  std::vector<std::byte> one(5000), two(5000);
  const auto first = ranks.recv(1, 0, key(1), one);
  const auto second = ranks.recv(1, 0, key(2), two);
  const auto other = ranks.recv(1, 0, key(1, 2), two);
  ranks.at(1).cancel(1);
  EXPECT_EQ(ranks.wait(1, first).status.code(), Code::kAborted);
  EXPECT_EQ(ranks.wait(1, second).status.code(), Code::kAborted);
  ranks.pump_for(5ms);
  EXPECT_FALSE(ranks.finished(1, other)) << "another communicator's";
}

TEST_F(Striped, AnotherNumberOfRailsIsRefused) {
  auto three = make(1, 3), two = make(1, 2);
  const auto peer = three.at(0).connect(two.at(0).address(), "rank 5 (node2)");
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.status().code(), Code::kMismatch);
  EXPECT_THAT(peer.status().message(), HasSubstr("rank 5 (node2) has 2 rails and this rank 3"));
  EXPECT_FALSE(three.at(0).connect("", "nobody").ok());
  EXPECT_FALSE(three.at(0).connect(three.at(0).address().substr(0, 5), "nobody").ok());
}

TEST_F(Striped, ASleeperIsWokenByAnyRail) {
  auto ranks = make(2, 2);
  set_speeds({1, 100}, 0);
  std::vector<std::byte> buffer(200);
  const auto data = random_(200);
  const auto received = ranks.recv(1, 0, key(), buffer);
  for (auto deadline = Deadline::after(5s); !ranks.at(1).arm();) {
    ASSERT_FALSE(deadline.passed());
    ranks.pump();
  }
  ranks.send(0, 1, key(), data);
  EXPECT_TRUE(ranks.wait(1, received, 1000ms).status.ok());
}

}  // namespace
}  // namespace foldcast::transports
