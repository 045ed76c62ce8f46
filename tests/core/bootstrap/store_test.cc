// Ranks as threads of this process over a real store on loopback. What only processes can show is in
// store_process_test.cc.
#include "core/bootstrap/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "core/bootstrap/channel.h"
#include "core/bootstrap/store_messages.h"
#include "tests/core/bootstrap/free_port.h"
#include "tests/core/bootstrap/store_job.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Runs `body` as each rank of a job, each in a thread with its own store.
void run_ranks(int size, const std::function<void(int rank, Store& store)>& body, const std::string& key = {}) {
  std::uint16_t port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto options = options_of(rank, size, port);
      options.key = key;
      auto store = Store::create(options);
      ASSERT_TRUE(store.ok()) << store.status().to_string();
      body(rank, **store);
    });
  }
  for (auto& thread : threads) thread.join();
}

class StoreOfSize : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, StoreOfSize, testing::Values(1, 2, 3, 5, 8));

TEST_P(StoreOfSize, EveryRankGetsWhatEachSet) {
  int size = GetParam();
  auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::vector<std::string> values;
  std::mt19937 random(seed);
  for (int rank = 0; rank < size; ++rank) {
    std::string value(random() % 5000, '\0');
    for (char& c : value) c = static_cast<char>(random());
    values.push_back(value);
  }
  run_ranks(size, [&](int rank, Store& store) {
    auto mine = static_cast<std::size_t>(rank);
    ASSERT_TRUE(store.set("value of " + std::to_string(rank), values[mine]).ok());
    for (int other = 0; other < size; ++other) {
      auto got = store.get("value of " + std::to_string(other), Deadline::after(5s));
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(*got, values[static_cast<std::size_t>(other)]) << "seed " << seed;
    }
    EXPECT_FALSE(store.failed_peer().has_value());
  });
}

TEST_P(StoreOfSize, GatherGivesAllValuesInMemberOrderManyTimes) {
  int size = GetParam();
  run_ranks(size, [&](int rank, Store& store) {
    auto members = everyone(size);
    std::reverse(members.begin(), members.end());
    for (int round = 0; round < 50; ++round) {
      auto tag = std::to_string(round);
      auto got = store.gather("round " + tag, members, tag + "/" + std::to_string(rank), Deadline::after(5s));
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_EQ(got->size(), members.size());
      for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ((*got)[i], tag + "/" + std::to_string(members[i]));
    }
  });
}

TEST_P(StoreOfSize, WorksWithAKey) {
  int size = GetParam();
  run_ranks(
      size, [&](int, Store& store) { EXPECT_TRUE(store.gather("all", everyone(size), "", Deadline::after(5s)).ok()); },
      "secret");
}

TEST_P(StoreOfSize, LeavingInAnyOrderIsNeverAFailure) {
  int size = GetParam();
  auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int repeat = 0; repeat < 5; ++repeat) {
    run_ranks(size, [&](int rank, Store& store) {
      ASSERT_TRUE(store.gather("all", everyone(size), "", Deadline::after(5s)).ok());
      std::mt19937 random(seed + static_cast<unsigned>(100 * repeat + rank));
      auto until = Deadline::after(std::chrono::milliseconds(random() % 100));
      while (!until.passed()) {
        auto failed = store.failed_peer();
        EXPECT_FALSE(failed.has_value()) << "rank " << failed->rank << ": " << failed->reason;
        std::this_thread::sleep_for(1ms);
      }
    });
  }
}

TEST(Store, SubgroupsAgreeIndependently) {
  run_ranks(5, [&](int rank, Store& store) {
    std::vector<int> members = rank % 2 == 0 ? std::vector<int>{0, 2, 4} : std::vector<int>{1, 3};
    auto got = store.gather(rank % 2 == 0 ? "even" : "odd", members, std::to_string(rank), Deadline::after(5s));
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ((*got)[i], std::to_string(members[i]));
  });
}

TEST(Store, TheEarliestDeadlineDecidesForAllAndNamesTheMissing) {
  std::atomic<int> errors = 0;
  std::vector<std::string> messages(3);
  run_ranks(4, [&](int rank, Store& store) {
    auto members = everyone(4);
    ASSERT_TRUE(store.gather("start", members, "", Deadline::after(5s)).ok());
    if (rank == 3) std::this_thread::sleep_for(600ms);  // comes when it is decided
    auto limit = rank == 1 ? 200ms : 5000ms;
    auto begin = Deadline::Clock::now();
    auto got = store.gather("late", members, "x", Deadline::after(limit));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), Code::kTimeout);
    EXPECT_THAT(got.status().message(), HasSubstr("rank 3 (node3)"));
    EXPECT_LT(Deadline::Clock::now() - begin, 2s);
    ++errors;
    ASSERT_TRUE(store.gather("end", members, "", Deadline::after(5s)).ok());  // it is no failure of a rank
    EXPECT_FALSE(store.failed_peer().has_value());
  });
  EXPECT_EQ(errors, 4);
}

TEST(Store, ARankThatNeverComesIsNamed) {
  std::uint16_t port = free_port();
  auto store = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  auto got = (*store)->gather("all", everyone(2), "", Deadline::after(100ms));
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.status().message(), HasSubstr("rank 1 (never connected)"));
}

TEST(Store, DifferentMemberListsAreAMismatchForAll) {
  run_ranks(3, [&](int rank, Store& store) {
    auto members = rank == 2 ? std::vector<int>{0, 2} : everyone(3);
    auto got = store.gather("all", members, "", Deadline::after(5s));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), Code::kMismatch) << got.status().to_string();
    EXPECT_THAT(got.status().message(), HasSubstr("[0 2]"));
    EXPECT_THAT(got.status().message(), HasSubstr("[0 1 2]"));
  });
}

TEST(Store, BadMemberListsAreRefusedAtOnce) {
  run_ranks(2, [&](int rank, Store& store) {
    for (auto members : {std::vector<int>{}, {0, 0}, {0, 2}, {-1, 0}, {1 - rank}}) {
      EXPECT_EQ(store.gather("bad", members, "", Deadline::after(5s)).status().code(), Code::kInvalidArgument);
    }
  });
}

TEST(Store, ValuesOverTheLimitAreRefusedOnAllRanks) {
  std::string large(9u << 20, 'x');  // each fits a frame, two do not
  run_ranks(2, [&](int, Store& store) {
    auto got = store.gather("large", everyone(2), large, Deadline::after(20s));
    EXPECT_EQ(got.status().code(), Code::kResourceExhausted) << got.status().to_string();
    EXPECT_EQ(store.set("key", std::string(17u << 20, 'x')).code(), Code::kInvalidArgument);
    ASSERT_TRUE(store.set("key", large).ok());
    auto back = store.get("key", Deadline::after(10s));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, large);
    EXPECT_TRUE(store.gather("end", everyone(2), "", Deadline::after(10s)).ok());
  });
}

TEST(Store, AFullStoreSaysSo) {
  run_ranks(2, [&](int rank, Store& store) {
    if (rank == 0) {
      std::string block(15u << 20, 'x');
      Status status;
      int stored = 0;
      for (; stored < 20 && status.ok(); ++stored) status = store.set("block " + std::to_string(stored), block);
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
      EXPECT_GT(stored, 15);
      EXPECT_TRUE(store.set("block 0", "small").ok());  // replacing frees
      EXPECT_TRUE(store.set("another", block).ok());
    }
    EXPECT_TRUE(store.gather("end", everyone(2), "", Deadline::after(90s)).ok());
  });
}

TEST(Store, GetWaitsUntilSomebodySets) {
  run_ranks(2, [&](int rank, Store& store) {
    if (rank == 0) {
      std::this_thread::sleep_for(100ms);
      ASSERT_TRUE(store.set("late", "came").ok());
    } else {
      auto got = store.get("late", Deadline::after(5s));
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(*got, "came");
    }
  });
}

TEST(Store, GetNamesTheKeyItWaitedFor) {
  run_ranks(2, [&](int, Store& store) {
    auto got = store.get("nobody sets this", Deadline::after(50ms));
    EXPECT_EQ(got.status().code(), Code::kTimeout);
    EXPECT_THAT(got.status().message(), HasSubstr("nobody sets this"));
    EXPECT_TRUE(store.gather("end", everyone(2), "", Deadline::after(5s)).ok());
  });
}

TEST(Store, ADuplicateRankIsRefusedByName) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 3, port));
  ASSERT_TRUE(zero.ok()) << zero.status().to_string();
  auto one = Store::create(options_of(1, 3, port));
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  auto impostor = options_of(1, 3, port);
  impostor.name = "impostor";
  auto again = Store::create(impostor);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.status().message(), HasSubstr("rank 1 has already joined"));
  EXPECT_THAT(again.status().message(), HasSubstr("node1"));
  EXPECT_FALSE((*zero)->failed_peer().has_value());
  one = aborted("closed");  // says farewell before rank 0 does: both are one thread here
}

TEST(Store, ADifferentSizeIsRefusedAndTheOthersLearnWhy) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok()) << zero.status().to_string();
  auto other = Store::create(options_of(1, 4, port));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.status().message(), HasSubstr("rank 1 (node1) was started with 4 ranks, rank 0 (node0) with 2"));
  auto got = (*zero)->gather("all", everyone(2), "", Deadline::after(50ms));
  EXPECT_THAT(got.status().message(), HasSubstr("started with 4 ranks"));
}

TEST(Store, ImpossibleOptionsAreRefused) {
  EXPECT_EQ(Store::create(options_of(2, 2, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Store::create(options_of(-1, 2, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Store::create(options_of(0, 0, 1)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Store::create(options_of(0, 2, 0)).status().code(), Code::kInvalidArgument);
}

TEST(Store, ABusyPortIsNamed) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  auto second = Store::create(options_of(0, 2, port));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr(std::to_string(port)));
}

TEST(Store, WithoutRankZeroJoiningEndsInTime) {
  auto options = options_of(1, 2, free_port());
  options.timeout = 300ms;
  auto begin = Deadline::Clock::now();
  auto store = Store::create(options);
  ASSERT_FALSE(store.ok());
  EXPECT_LT(Deadline::Clock::now() - begin, 2s);
  EXPECT_THAT(store.status().message(), HasSubstr("127.0.0.1:" + std::to_string(options.port)));
}

TEST(Store, AJobsNextStoreCanUseTheSamePort) {
  std::uint16_t port = free_port();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int job = 0; job < 4; ++job) {
        auto store = Store::create(options_of(rank, 3, port));
        ASSERT_TRUE(store.ok()) << "rank " << rank << " job " << job << ": " << store.status().to_string();
        auto got = (*store)->gather("all", everyone(3), std::to_string(job), Deadline::after(5s));
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        EXPECT_THAT(*got, testing::Each(std::to_string(job)));
        if (rank == 2) std::this_thread::sleep_for(50ms);  // the others are back before it has left
      }
    });
  }
  for (auto& rank : ranks) rank.join();
}

TEST(Store, RankZeroLeavingFirstIsNoFailure) {
  std::atomic<bool> zero_left = false;
  run_ranks(3, [&](int rank, Store& store) {
    ASSERT_TRUE(store.gather("all", everyone(3), "", Deadline::after(5s)).ok());
    if (rank == 0) {
      zero_left = true;
      return;
    }
    while (!zero_left) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(100ms);
    // The store still serves those that are left.
    auto got = store.gather("rest", std::vector<int>{1, 2}, "y", Deadline::after(2s));
    EXPECT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_FALSE(store.failed_peer().has_value());
    auto with_zero = store.gather("all again", everyone(3), "", Deadline::after(2s));
    EXPECT_THAT(with_zero.status().message(), HasSubstr("rank 0 (node0) has left the job"));
  });
}

TEST(Store, AfterRankZeroGaveUpWaitingTheStoreIsGoneButNobodyFailed) {
  std::atomic<bool> zero_gone = false;
  std::uint16_t port = free_port();
  std::thread rank0([&] {
    auto store = Store::create(options_of(0, 2, port));
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->gather("all", everyone(2), "", Deadline::after(5s)).ok());
    store = aborted("closed");
    zero_gone = true;
  });
  auto store = Store::create(options_of(1, 2, port));
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->gather("all", everyone(2), "", Deadline::after(5s)).ok());
  auto limit = Deadline::after(10s);
  while (!zero_gone && !limit.passed()) std::this_thread::sleep_for(10ms);
  rank0.join();
  EXPECT_TRUE(zero_gone);
  EXPECT_FALSE((*store)->failed_peer().has_value());
  auto status = (*store)->set("key", "value");
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 (node0) has left"));
  pollfd entry{(*store)->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "who sleeps on the descriptor would spin";
}

TEST(Store, AJobOfOneRankNeedsNoPort) {
  auto options = options_of(0, 1, 0);
  options.host.clear();
  auto store = Store::create(options);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->descriptor(), -1);
  EXPECT_TRUE((*store)->set("a", "b").ok());
  EXPECT_EQ(*(*store)->get("a", Deadline::after(1s)), "b");
  EXPECT_EQ((*store)->get("c", Deadline::after(1s)).status().code(), Code::kTimeout);
  EXPECT_THAT(*(*store)->gather("g", everyone(1), "v", Deadline::after(1s)), testing::ElementsAre("v"));
}

// --- Peers that speak the protocol wrongly ---

std::unique_ptr<Channel> connected(std::uint16_t port) {
  ChannelOptions options;
  options.service = kStoreService;
  auto channel = Channel::connect("127.0.0.1", port, options, Deadline::after(5s));
  EXPECT_TRUE(channel.ok()) << channel.status().to_string();
  return *std::move(channel);
}

struct RawRank {
  std::unique_ptr<Channel> channel;

  static RawRank joined(int rank, int size, std::uint16_t port, const std::string& name = "raw") {
    RawRank raw{connected(port)};
    StoreMessage join{.verb = StoreVerb::kJoin, .rank = rank, .size = size};
    join.name = name;
    EXPECT_TRUE(raw.channel->send(encode(join)).ok());
    auto answer = raw.channel->receive(Deadline::after(5s));
    EXPECT_TRUE(answer.ok()) << answer.status().to_string();
    return raw;
  }
};

TEST(Store, RandomRequestsNeverHurtTheOthers) {
  auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 100, port));
  ASSERT_TRUE(zero.ok());
  for (int rank = 1; rank < 60; ++rank) {
    auto raw = RawRank::joined(rank, 100, port);
    StoreMessage message{.verb = static_cast<StoreVerb>(1 + random() % 24)};
    message.members = {static_cast<int>(random()), rank};
    message.name = "n";
    std::string frame = encode(message);
    for (unsigned flips = random() % 8; flips > 0; --flips)
      frame[random() % frame.size()] = static_cast<char>(random());
    if (random() % 3 == 0) frame.resize(random() % frame.size());
    (void)raw.channel->send(frame);
    (void)raw.channel->flush(Deadline::after(1s));
  }
  EXPECT_TRUE((*zero)->set("still", "alive").ok());
  EXPECT_EQ(*(*zero)->get("still", Deadline::after(5s)), "alive");
}

TEST(Store, ARankThatDoesNotReadIsExpelledByName) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  auto raw = RawRank::joined(1, 2, port);
  ASSERT_TRUE((*zero)->set("big", std::string(15u << 20, 'x')).ok());
  StoreMessage get{.verb = StoreVerb::kGet, .time_ms = 1000};
  get.name = "big";
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(raw.channel->send(encode(get)).ok());
  auto limit = Deadline::after(60s);
  while (!(*zero)->failed_peer() && !limit.passed()) std::this_thread::sleep_for(5ms);
  auto failed = (*zero)->failed_peer();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->rank, 1);
  EXPECT_EQ(failed->name, "raw");
  EXPECT_THAT(failed->reason, HasSubstr("does not read"));
}

TEST(Store, AValueThatNoAnswerCouldCarryIsRefused) {
  run_ranks(2, [&](int rank, Store& store) {
    if (rank == 0) {
      std::string value((16u << 20) - 14, 'x');  // with its key of one byte exactly a frame; the answer adds more
      auto status = store.set("k", value);
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
      EXPECT_THAT(status.message(), HasSubstr("\"k\""));
      EXPECT_TRUE(store.set("k", value.substr(100)).ok());
    }
    auto got = store.get("k", Deadline::after(20s));
    EXPECT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_TRUE(store.gather("end", everyone(2), "", Deadline::after(20s)).ok());
    EXPECT_FALSE(store.failed_peer().has_value());
  });
}

TEST(Store, LongNamesAreRefused) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 3, port));
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ((*zero)->set(std::string(256, 'k'), "").code(), Code::kInvalidArgument);
  EXPECT_TRUE((*zero)->set(std::string(255, 'k'), "").ok());
  StoreMessage join{.verb = StoreVerb::kJoin, .rank = 1, .size = 3};
  join.name.assign(256, 'n');
  auto stranger = connected(port);
  ASSERT_TRUE(stranger->send(encode(join)).ok());
  EXPECT_EQ(stranger->receive(Deadline::after(2s)).status().code(), Code::kPeerFailed);
}

TEST(Store, NamesReachOthersAsPlainText) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  { auto raw = RawRank::joined(1, 2, port, "\x1b[2Jraw\n"); }
  auto status = (*zero)->gather("all", everyone(2), "", Deadline::after(5s)).status();
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (?[2Jraw?) failed"));
  EXPECT_THAT(status.message(), HasSubstr("closed the connection without farewell"));
}

TEST(Store, WhoSendsNonsenseIsSaidToHaveSentIt) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  auto raw = RawRank::joined(1, 2, port);
  ASSERT_TRUE(raw.channel->send("nonsense").ok());
  auto status = (*zero)->gather("all", everyone(2), "", Deadline::after(5s)).status();
  EXPECT_THAT(status.message(), testing::EndsWith("it sent a malformed request"));
}

TEST(Store, ConnectionsThatNeverJoinAreBounded) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  constexpr int kAllowed = 2 + 64;
  std::vector<std::unique_ptr<Channel>> strangers;
  for (int i = 0; i < kAllowed + 4; ++i) strangers.push_back(connected(port));
  int dropped = 0;
  for (auto& stranger : strangers) {
    dropped += stranger->receive(Deadline::after(20ms)).status().code() == Code::kPeerFailed ? 1 : 0;
  }
  EXPECT_EQ(dropped, 4);
  strangers.clear();
  auto one = Store::create(options_of(1, 2, port));
  EXPECT_TRUE(one.ok()) << one.status().to_string();
  one = aborted("closed");
}

/// Rank 0's end of the store, by hand, for one client that is rank 1 of two.
class FakeStore {
 public:
  FakeStore() {
    ChannelOptions options;
    options.service = kStoreService;
    listener_ = *ChannelListener::listen("127.0.0.1", 0, options);
  }
  std::uint16_t port() const { return listener_->port(); }
  void accept() {
    auto limit = Deadline::after(5s);
    while (!channel_ && !limit.passed()) {
      pollfd entry{listener_->descriptor(), POLLIN, 0};
      (void)::poll(&entry, 1, 10);
      for (auto& channel : listener_->poll()) channel_ = std::move(channel);
    }
  }
  StoreMessage hear() {
    auto frame = channel_->receive(Deadline::after(5s));
    return frame.ok() ? *decode_store_message(*frame) : StoreMessage{};
  }
  /// Says all in one write, so that one read takes them in.
  void say(const std::vector<StoreMessage>& messages) {
    std::string bytes;
    for (const auto& message : messages) {
      std::string frame = encode(message);
      bytes += std::string{0, 0, static_cast<char>(frame.size() >> 8), static_cast<char>(frame.size() & 0xff)} + frame;
    }
    ASSERT_EQ(::send(channel_->descriptor(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

 private:
  std::unique_ptr<ChannelListener> listener_;
  std::unique_ptr<Channel> channel_;
};

TEST(Store, NewsThatComesAlongWithAnAnswerWakesWhoSleepsOnTheDescriptor) {
  for (bool with_join : {true, false}) {
    FakeStore zero;
    auto joining = std::async(std::launch::async, [&] { return Store::create(options_of(1, 3, zero.port())); });
    zero.accept();
    ASSERT_EQ(zero.hear().verb, StoreVerb::kJoin);
    StoreMessage failed{.verb = StoreVerb::kFailed, .rank = 2};
    std::vector<StoreMessage> answer{{.verb = StoreVerb::kJoined}};
    if (with_join) answer.push_back(failed);
    zero.say(answer);
    auto one = joining.get();
    ASSERT_TRUE(one.ok()) << one.status().to_string();
    if (!with_join) {
      auto setting = std::async(std::launch::async, [&] { return (*one)->set("key", "value"); });
      zero.say({{.verb = StoreVerb::kAnswer, .id = zero.hear().id}, failed});
      ASSERT_TRUE(setting.get().ok());
    }
    pollfd entry{(*one)->descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 1) << (with_join ? "with the join" : "with a call");
    auto news = (*one)->failed_peer();
    ASSERT_TRUE(news.has_value());
    EXPECT_EQ(news->rank, 2);
    zero = FakeStore();  // or the client waits for its goodbye
  }
}

TEST(Store, AFailureThatACallTookInWakesTheDescriptor) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  { auto raw = RawRank::joined(1, 2, port); }
  EXPECT_EQ((*zero)->gather("all", everyone(2), "", Deadline::after(5s)).status().code(), Code::kPeerFailed);
  pollfd entry{(*zero)->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 1000), 1);
}

TEST(Store, AFailureWakesTheDescriptorAndIsKept) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  { auto raw = RawRank::joined(1, 2, port); }
  pollfd entry{(*zero)->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 1000), 1);
  for (int i = 0; i < 2; ++i) {
    auto failed = (*zero)->failed_peer();
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(failed->rank, 1);
  }
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  auto got = (*zero)->gather("all", everyone(2), "", Deadline::after(1s));
  EXPECT_EQ(got.status().code(), Code::kPeerFailed);
  EXPECT_THAT(got.status().message(), HasSubstr("rank 1 (raw) failed"));
  EXPECT_EQ((*zero)->get("absent", Deadline::after(5s)).status().code(), Code::kPeerFailed);
}

}  // namespace
}  // namespace foldcast::bootstrap
