// Messages and receives against a model: random histories, and the cases with a rule of their own.
#include "transports/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <tuple>

namespace foldcast::transports {
namespace {

const Signature kCall{Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kSum, WireFormat::kExact, 0, 100};

struct Fixture {
  explicit Fixture(std::uint64_t limit = 1 << 20) : matcher(limit, peers, completions) {
    a = peers.connect(1, "rank 1");
    b = peers.connect(2, "rank 2");
  }
  std::optional<KeptMessage> recv(std::int32_t peer, MessageKey key, std::uint64_t cookie, Signature s = kCall,
                                  std::uint64_t room = 8) {
    EngineCall call;
    call.verb = Verb::kRecv;
    call.peer = peer;
    call.key = key;
    call.signature = s;
    call.bytes = room;
    return matcher.post(call, cookie);
  }
  /// As a backend does it: a message that must be kept is.
  Matcher::Outcome arrive(const Arrival& arrival, bool remote = false) {
    auto outcome = matcher.arrive(arrival, remote);
    const std::vector<std::byte> bytes(arrival.bytes);
    if (outcome.verdict == Matcher::Verdict::kKeep) {
      matcher.keep(arrival, copy_payload(bytes.data(), bytes.size()), remote);
    } else if (outcome.verdict == Matcher::Verdict::kFlood) {
      matcher.fail_peer(arrival.peer, matcher.flooded());
    }
    return outcome;
  }
  std::vector<Completion> done() {
    std::vector<Completion> all(4096);
    all.resize(completions.pop(all));
    return all;
  }
  PeerTable peers;
  CompletionQueue completions;
  Matcher matcher;
  std::int32_t a = -1, b = -1;
};

MessageKey key(std::uint64_t tag, std::uint32_t communicator = 1, std::uint64_t sequence = 1) {
  return {communicator, 0, sequence, tag};
}

TEST(Matcher, RandomHistoriesMatchLikeQueues) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Fixture f(1 << 30);
  // Per (peer, key): receives (positive cookies) or messages (sizes) that wait; never both.
  std::map<std::pair<std::int32_t, std::uint64_t>, std::pair<std::deque<std::uint64_t>, std::deque<std::uint64_t>>>
      model;
  for (std::uint64_t step = 1; step < 200000; ++step) {
    std::int32_t peer = random() % 2 ? f.a : f.b;
    std::uint64_t tag = random() % 50;
    auto& [receives, messages] = model[{peer, tag}];
    // Drift back and forth so that the tables grow and drain.
    bool receive = random() % 100 < (step / 20000 % 2 ? 60u : 40u);
    if (receive) {
      auto message = f.recv(peer, key(tag), step, kCall, 1000);
      ASSERT_EQ(message.has_value(), !messages.empty());
      if (message) {
        ASSERT_EQ(message->arrival.bytes, messages.front());
        ASSERT_EQ(message->receive.cookie, step);
        messages.pop_front();
      } else {
        receives.push_back(step);
      }
    } else if (messages.size() < 20) {
      std::uint64_t size = random() % 1000;
      auto outcome = f.arrive({peer, key(tag), kCall, size});
      ASSERT_EQ(outcome.verdict == Matcher::Verdict::kDeliver, !receives.empty());
      if (receives.empty()) {
        messages.push_back(size);
      } else {
        ASSERT_EQ(outcome.receive.cookie, receives.front());
        receives.pop_front();
      }
    }
  }
  EXPECT_TRUE(f.done().empty());
  f.matcher.cancel(1);
  EXPECT_EQ(f.matcher.waiting(), 0u);
  EXPECT_EQ(f.matcher.kept_bytes(), 0u);
}

TEST(Matcher, KeysDifferInEveryPart) {
  Fixture f;
  MessageKey base{1, 2, 3, 4};
  f.recv(f.a, base, 1);
  for (MessageKey other :
       {MessageKey{9, 2, 3, 4}, MessageKey{1, 9, 3, 4}, MessageKey{1, 2, 9, 4}, MessageKey{1, 2, 3, 9}}) {
    EXPECT_EQ(f.arrive({f.a, other, kCall, 0}).verdict, Matcher::Verdict::kKeep);
  }
  EXPECT_EQ(f.arrive({f.b, base, kCall, 0}).verdict, Matcher::Verdict::kKeep);
  EXPECT_EQ(f.arrive({f.a, base, kCall, 0}).verdict, Matcher::Verdict::kDeliver);
}

TEST(Matcher, AConflictEndsTheReceivesOfThatCallOnly) {
  Fixture f;
  for (std::uint64_t i = 0; i < 3; ++i) f.recv(f.a, key(i), i);
  f.recv(f.a, key(3), 3, Signature::any());
  f.recv(f.a, key(4, 1, 2), 4);
  f.recv(f.a, key(5, 2, 1), 5);
  f.recv(f.b, key(6), 6);
  Signature other = kCall;
  other.count = 9;
  f.arrive({f.a, key(77), other, 4});
  auto done = f.done();
  std::vector<std::uint64_t> cookies;
  for (auto& completion : done) {
    EXPECT_EQ(completion.status.code(), Code::kMismatch);
    cookies.push_back(completion.cookie);
  }
  EXPECT_THAT(cookies, ::testing::UnorderedElementsAre(0u, 1u, 2u));
  EXPECT_THAT(done[0].status.message(),
              ::testing::AllOf(::testing::HasSubstr("rank 1 has 9"), ::testing::HasSubstr("this rank has 100")));
  EXPECT_FALSE(f.recv(f.a, key(8), 8));
  EXPECT_EQ(f.done().at(0).status.code(), Code::kMismatch) << "posted after the conflict came";
}

TEST(Matcher, EmptyMessagesAreBoundedToo) {
  Fixture f(10 * Matcher::kEntryBytes);
  for (std::uint64_t i = 0; i < 12; ++i) f.arrive({f.a, key(i), kCall, 0});
  EXPECT_EQ(f.matcher.counters().dropped, 2u);
  EXPECT_TRUE(f.recv(f.a, key(0), 1));
  EXPECT_FALSE(f.recv(f.a, key(11), 2));
  EXPECT_EQ(f.done().at(0).status.code(), Code::kResourceExhausted);
}

TEST(Matcher, AFloodFailsThePeer) {
  Fixture f(0);
  f.recv(f.a, key(1, 9), 1);
  f.recv(f.b, key(1, 9), 2);
  for (std::uint64_t i = 0; i <= Matcher::kMaxOverflowed; ++i) f.arrive({f.a, key(i), kCall, 8});
  auto done = f.done();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].cookie, 1u);
  EXPECT_EQ(done[0].status.code(), Code::kResourceExhausted);
  EXPECT_LE(f.matcher.waiting(), Matcher::kMaxOverflowed + 1);
}

TEST(Matcher, AFailedPeersWholeMessagesAreStillDelivered) {
  Fixture f;
  f.arrive({f.a, key(1), kCall, 8});
  f.arrive({f.a, key(2), kCall, 8}, true);
  f.recv(f.a, key(3), 3);
  f.matcher.fail_peer(f.a, peer_failed("rank 1 is gone"));
  EXPECT_EQ(f.done().at(0).cookie, 3u);
  EXPECT_TRUE(f.recv(f.a, key(1), 1));
  EXPECT_FALSE(f.recv(f.a, key(2), 2)) << "its bytes were still with the sender";
  EXPECT_EQ(f.done().at(0).status.code(), Code::kPeerFailed);
}

TEST(Matcher, WithdrawnMessagesEndTheirReceives) {
  Fixture f;
  f.arrive({f.a, key(1), kCall, 1 << 19}, true);
  f.arrive({f.a, key(2), kCall, 8});
  f.matcher.withdraw(f.a, 1, aborted("rank 1 cancelled"));
  EXPECT_FALSE(f.recv(f.a, key(1), 1, kCall, 1 << 19));
  EXPECT_EQ(f.done().at(0).status.code(), Code::kAborted);
  EXPECT_TRUE(f.recv(f.a, key(2), 2)) << "this one had come whole";
  EXPECT_EQ(f.matcher.kept_bytes(), 0u);
}

}  // namespace
}  // namespace foldcast::transports
