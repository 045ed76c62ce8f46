// How a shared-memory node group forms, breaks and ends: missing, differing, dead and foreign peers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hierarchy/shm/rendezvous.h"
#include "hierarchy/shm/rendezvous_messages.h"
#include "tests/hierarchy/node_group_fixture.h"
#include "transports/shm/cross_memory.h"
#include "transports/shm/local_socket.h"

namespace foldcast::hierarchy {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// Descriptors and mapped segments of this process.
std::size_t footprint() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  auto count = static_cast<std::size_t>(std::distance(begin(descriptors), end(descriptors)));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("foldcast-node") != std::string::npos ? 1 : 0;
  return count;
}

/// Forks the ranks above 0, which run `body` and end with 0 when it returns an empty string; rank 0 is this process.
class Forked {
 public:
  Forked(ShmOptions options, const std::function<std::string(NodeGroup&)>& body) {
    options.name = fresh_name();
    for (int rank = 1; rank < options.size; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        options.rank = rank;
        auto group = make_shm_node_group(options);
        const std::string wrong = group.ok() ? body(**group) : group.status().to_string();
        if (!wrong.empty()) ::dprintf(2, "%s\n", wrong.c_str());
        ::_exit(wrong.empty() ? 0 : 1);
      }
      children_.push_back(child);
    }
    group_ = std::move(make_shm_node_group(options)).value();
  }
  ~Forked() {
    for (pid_t child : children_) ::kill(child, SIGKILL);
    for (pid_t child : children_) ::waitpid(child, nullptr, 0);
  }
  NodeGroup& group() { return *group_; }
  void kill(std::size_t index) {
    ::kill(children_[index], SIGKILL);
    ::waitpid(children_[index], nullptr, 0);
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void expect_all_succeed() {
    for (pid_t child : children_) {
      int status = -1;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    children_.clear();
  }

 private:
  std::vector<pid_t> children_;
  std::unique_ptr<NodeGroup> group_;
};

TEST(ShmProcesses, ReduceAcrossProcesses) {
  const std::uint64_t seed = fresh_seed();
  for (int size : {2, 3}) {
    auto body = [seed](NodeGroup& group) -> std::string {
      for (std::uint64_t sequence = 0; sequence < 600; ++sequence) {
        const auto n = static_cast<std::uint64_t>(group.size());
        Case one{.verb = static_cast<Verb>(2 + sequence % 9),
                 .count = sequence % 7 == 0 ? sequence * 31 : sequence % 11};
        one.owners = static_cast<std::uint16_t>(1 + sequence % n);
        one.root = static_cast<std::int32_t>(sequence / 9 % n);
        one = fit(one, group.size());
        one.in_place = sequence % 2 == 0;
        one.sequence = sequence;
        if (std::string wrong = run_case(group, one, seed); !wrong.empty()) return wrong;
      }
      return {};
    };
    Forked forked({.name = {}, .size = size, .slot_bytes = 4096}, body);
    EXPECT_EQ(body(forked.group()), "") << "seed " << seed;
    forked.expect_all_succeed();
  }
}

TEST(ShmProcesses, CancelReleasesFromAKilledMember) {
  const std::uint64_t seed = fresh_seed();
  auto body = [seed](NodeGroup& group) -> std::string {
    for (std::uint64_t sequence = 0;; ++sequence) {
      if (auto wrong = run_case(group, {.count = 5000, .sequence = sequence}, seed); !wrong.empty()) return wrong;
    }
  };
  Forked forked({.name = {}, .size = 3, .slot_bytes = 4096}, body);
  for (std::uint64_t sequence = 0; sequence < 50; ++sequence) {
    ASSERT_EQ(run_case(forked.group(), {.count = 5000, .sequence = sequence}, seed), "");
  }
  forked.kill(0);
  // What was published before the death may still complete; soon nothing does.
  std::vector<std::unique_ptr<Exchange>> calls;
  std::vector<bool> ended(20, false);
  for (std::uint64_t i = 0; i < ended.size(); ++i) {
    calls.push_back(std::make_unique<Exchange>(Case{.count = 5000, .sequence = 50 + i}, 0, 3, seed));
    ASSERT_EQ(forked.group().post(calls.back()->call(), i), Posted::kAccepted);
  }
  const Deadline quiet = Deadline::after(milliseconds(100));
  Completion some[8];
  while (!quiet.passed()) {
    for (std::size_t n = forked.group().poll(some); n > 0; --n) ended[some[n - 1].cookie] = true;
  }
  ASSERT_FALSE(ended.back()) << "a dead member took part";
  forked.group().cancel(0);
  const auto open = static_cast<std::size_t>(std::count(ended.begin(), ended.end(), false));
  auto aborted = finish(forked.group(), open);
  ASSERT_TRUE(aborted);
  for (const Completion& completion : *aborted) EXPECT_EQ(completion.status.code(), Code::kAborted);
}

struct Differing {
  const char* field;
  void (*change)(EngineCall&);
};
constexpr Differing kDifferences[] = {
    {"datatype", [](EngineCall& c) { c.signature.dtype = Datatype::kFloat32; }},
    {"op", [](EngineCall& c) { c.signature.op = ReduceOp::kMax; }},
    {"count", [](EngineCall& c) { c.signature.count = c.count = 1; }},
    {"fragment count", [](EngineCall& c) { c.count = 1; }},
    {"collective", [](EngineCall& c) { c.signature.kind = Collective::kBarrier; }},
    {"verb", [](EngineCall& c) { c.verb = Verb::kBarrier; }},
    {"root", [](EngineCall& c) { c.signature.root = 1; }},
    {"call number", [](EngineCall& c) { c.key.sequence = 9; }},
    {"fragment", [](EngineCall& c) { c.key.fragment = 3; }},
};

TEST(ShmMismatch, EndsOnAllMembersNamingBothSides) {
  const std::uint64_t seed = fresh_seed();
  for (int size : {2, 3}) {
    for (const Differing& difference : kDifferences) {
      for (std::uint64_t count : {2u, 5000u}) {
        SCOPED_TRACE(testing::Message() << difference.field << ", size " << size << ", count " << count);
        as_threads({.name = {}, .size = size, .slot_bytes = 1024}, Mapping::kEach, [&](NodeGroup& group) {
          const auto rank = static_cast<std::uint32_t>(group.rank());
          ASSERT_EQ(run_case(group, {.count = 3, .sequence = 1}, seed), "");
          Exchange exchange({.count = count, .sequence = 2}, rank, size, seed);
          EngineCall call = exchange.call();
          if (group.rank() == size - 1) difference.change(call);
          EngineCall other_lane = call;
          other_lane.lane = 1;
          other_lane.verb = Verb::kBarrier;
          ASSERT_EQ(group.post(call, 1), Posted::kAccepted);
          auto ended = finish(group, 1);
          ASSERT_TRUE(ended);
          const Status& status = ended->front().status;
          EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
          EXPECT_THAT(status.message(), HasSubstr(std::string(difference.field) + " differs"));
          EXPECT_THAT(status.message(), HasSubstr("local rank " + std::to_string(size - 1)));
          EXPECT_EQ(exchange.check_untouched(), "");
          ASSERT_EQ(group.post(other_lane, 2), Posted::kAccepted);
          ended = finish(group, 1);
          ASSERT_TRUE(ended);
          EXPECT_EQ(ended->front().status.code(), Code::kAborted);
          EXPECT_THAT(ended->front().status.message(), HasSubstr(difference.field));
        });
      }
    }
  }
}

TEST(ShmMismatch, RootsAndCutsAreCompared) {
  static constexpr std::uint64_t kCuts[] = {0, 2, 8};
  static constexpr std::uint64_t kOthers[] = {0, 3, 8};
  const std::pair<const char*, void (*)(EngineCall&, bool)> cases[] = {
      {"root's local rank", [](EngineCall& c, bool odd) { c.verb = Verb::kReduce, c.peer = odd ? 1 : 0; }},
      {"root's local rank", [](EngineCall& c, bool odd) { c.verb = Verb::kGather, c.peer = odd ? 1 : 0; }},
      {"cuts", [](EngineCall& c, bool odd) { c.verb = Verb::kAllGather, c.cuts = odd ? kCuts : kOthers; }},
      {"cuts", [](EngineCall& c, bool odd) { c.verb = Verb::kReduceScatter, c.cuts = odd ? nullptr : kCuts; }},
  };
  for (const auto& [field, change] : cases) {
    as_threads({.name = {}, .size = 2}, Mapping::kEach, [&, field = field, change = change](NodeGroup& group) {
      Exchange exchange({.count = 8, .owners = 2, .sequence = 1}, static_cast<std::uint32_t>(group.rank()), 2, 1);
      EngineCall call = exchange.call();
      change(call, group.rank() == 1);
      ASSERT_EQ(group.post(call, 1), Posted::kAccepted);
      auto ended = finish(group, 1);
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->front().status.code(), Code::kMismatch);
      EXPECT_THAT(ended->front().status.message(), HasSubstr(std::string(field) + " differs"));
      EXPECT_EQ(exchange.check_untouched(), "");
    });
  }
}

TEST(ShmMismatch, EarlierCallsStillComplete) {
  const std::uint64_t seed = fresh_seed();
  as_threads({.name = {}, .size = 3, .slot_bytes = 1024}, Mapping::kShared, [&](NodeGroup& group) {
    const auto rank = static_cast<std::uint32_t>(group.rank());
    Exchange good({.count = 5000, .sequence = 1}, rank, 3, seed);
    Exchange bad({.count = group.rank() == 1 ? 10u : 11u, .sequence = 2}, rank, 3, seed);
    Exchange after({.count = 4, .sequence = 3}, rank, 3, seed);
    ASSERT_EQ(group.post(good.call(), 1), Posted::kAccepted);
    ASSERT_EQ(group.post(bad.call(), 2), Posted::kAccepted);
    ASSERT_EQ(group.post(after.call(), 3), Posted::kAccepted);
    auto ended = finish(group, 3);
    ASSERT_TRUE(ended);
    EXPECT_TRUE((*ended)[0].status.ok());
    EXPECT_EQ(good.check(), "");
    EXPECT_EQ((*ended)[1].status.code(), Code::kMismatch);
    EXPECT_EQ((*ended)[2].status.code(), Code::kAborted);
    EXPECT_EQ(bad.check_untouched() + after.check_untouched(), "");
  });
}

TEST(ShmNodeGroup, CancelEndsOutstandingAndLaterCalls) {
  const std::uint64_t seed = fresh_seed();
  as_threads({.name = {}, .size = 2}, Mapping::kEach, [&](NodeGroup& group) {
    ASSERT_EQ(run_case(group, {.count = 3, .sequence = 1}, seed), "");
    if (group.rank() == 1) return;
    Exchange lonely({.count = 100, .sequence = 2}, 0, 2, seed);
    for (std::uint64_t cookie = 0; cookie < 3; ++cookie)
      ASSERT_EQ(group.post(lonely.call(), cookie), Posted::kAccepted);
    Completion none[4];
    EXPECT_EQ(group.poll(none), 0u);
    EXPECT_TRUE(group.arm());
    group.cancel(7);
    group.cancel(7);
    EXPECT_FALSE(group.arm());
    ASSERT_EQ(group.post(lonely.call(), 3), Posted::kAccepted);
    auto ended = finish(group, 4);
    ASSERT_TRUE(ended);
    for (std::uint64_t cookie = 0; cookie < 4; ++cookie) {
      EXPECT_EQ((*ended)[cookie].cookie, cookie);
      EXPECT_EQ((*ended)[cookie].status.code(), Code::kAborted);
      EXPECT_THAT((*ended)[cookie].status.message(), HasSubstr("communicator 7"));
    }
    EXPECT_EQ(lonely.check_untouched(), "");
  });
}

TEST(ShmNodeGroup, WhatAnAbortedRankAttachedIsNotReliedOn) {
  const std::uint64_t seed = fresh_seed();
  const Case large{.verb = Verb::kBroadcast, .dtype = Datatype::kFloat32, .count = 1u << 20, .sequence = 1};
  std::atomic<bool> cancelled{false};
  as_threads({.name = {}, .size = 2}, Mapping::kEach, [&](NodeGroup& group) {
    // Once they have met, each knows that the other can read its memory.
    ASSERT_EQ(run_case(group, {.verb = Verb::kBarrier}, seed), "");
    Exchange exchange(large, static_cast<std::uint32_t>(group.rank()), 2, seed);
    if (group.rank() == 0) {
      ASSERT_EQ(group.post(exchange.call(), 1), Posted::kAccepted);
      group.cancel(7);
      cancelled = true;
      auto ended = finish(group, 1);
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->front().status.code(), Code::kAborted);
      return;
    }
    while (!cancelled) std::this_thread::yield();
    ASSERT_EQ(group.post(exchange.call(), 1), Posted::kAccepted);
    Completion none[2];
    for (const Deadline quiet = Deadline::after(milliseconds(50)); !quiet.passed();) ASSERT_EQ(group.poll(none), 0u);
    group.cancel(7);
    auto ended = finish(group, 1);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->front().status.code(), Code::kAborted);
  });
}

TEST(CrossMemory, FindsWhomItReachesAndSaysWhatFails) {
  using transports::ProcessMemory;
  const ProcessMemory own = transports::own_memory();
  EXPECT_TRUE(transports::reaches(own));
  ProcessMemory other = own;
  ++other.number;
  EXPECT_FALSE(transports::reaches(other)) << "a process of that number, but another one";
  std::vector<std::byte> from(300000, std::byte{7}), to(300000);
  ASSERT_TRUE(transports::read_memory(own, from.data(), to.data(), to.size()).ok());
  EXPECT_EQ(from, to);
  from.assign(from.size(), std::byte{9});
  ASSERT_TRUE(transports::write_memory(own, from.data(), to.data(), to.size()).ok());
  EXPECT_EQ(from, to);
  EXPECT_EQ(transports::read_memory(own, nullptr, to.data(), 8).code(), Code::kInternal);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  other = own;
  other.process = child;
  EXPECT_FALSE(transports::reaches(other));
  EXPECT_EQ(transports::read_memory(other, from.data(), to.data(), 8).code(), Code::kPeerFailed);
}

constexpr std::uint64_t kDescending[] = {0, 5, 4};
constexpr std::uint64_t kShort[] = {0, 1, 3};

TEST(ShmNodeGroup, InvalidCallsAreRefusedByNameAndLeaveTheGroupWhole) {
  const std::uint64_t seed = fresh_seed();
  as_threads({.name = {}, .size = 2}, Mapping::kEach, [&](NodeGroup& group) {
    Exchange exchange({.count = 4, .sequence = 1}, static_cast<std::uint32_t>(group.rank()), 2, seed);
    struct {
      const char* says;
      void (*spoil)(EngineCall&);
    } const spoils[] = {
        {"lane 2", [](EngineCall& c) { c.lane = 2; }},
        {"transport", [](EngineCall& c) { c.verb = Verb::kSend; }},
        {"unknown datatype", [](EngineCall& c) { c.signature.dtype = static_cast<Datatype>(77); }},
        {"unknown op", [](EngineCall& c) { c.signature.op = static_cast<ReduceOp>(kReduceOpCount); }},
        {"not registered", [](EngineCall& c) { c.signature.op = static_cast<ReduceOp>(64 + 150); }},
        {"band is not defined for float32",
         [](EngineCall& c) { c.signature.dtype = Datatype::kFloat32, c.signature.op = ReduceOp::kBand; }},
        {"avg is not defined for bool",
         [](EngineCall& c) {
           c.verb = Verb::kReduce, c.peer = 0, c.signature.dtype = Datatype::kBool, c.signature.op = ReduceOp::kAvg;
         }},
        {"null buffer", [](EngineCall& c) { c.output = nullptr; }},
        {"more than memory", [](EngineCall& c) { c.count = ~0ull; }},
        {"0 owners", [](EngineCall& c) { c.verb = Verb::kReduceScatter, c.owners = 0; }},
        {"3 owners", [](EngineCall& c) { c.verb = Verb::kAllGather, c.owners = 3; }},
        {"broadcast with local rank 2 as root", [](EngineCall& c) { c.verb = Verb::kBroadcast, c.peer = 2; }},
        {"reduce with local rank -1 as root", [](EngineCall& c) { c.verb = Verb::kReduce, c.peer = -1; }},
        {"gather with local rank 9 as root", [](EngineCall& c) { c.verb = Verb::kGather, c.peer = 9; }},
        {"uneven shards", [](EngineCall& c) { c.verb = Verb::kAllToAll, c.count = 3; }},
        {"do not ascend", [](EngineCall& c) { c.verb = Verb::kAllGather, c.owners = 2, c.cuts = kDescending; }},
        {"do not reach from 0 to count 4",
         [](EngineCall& c) { c.verb = Verb::kAllGather, c.owners = 2, c.cuts = kShort; }},
    };
    for (const auto& spoil : spoils) {
      EngineCall call = exchange.call();
      spoil.spoil(call);
      ASSERT_EQ(group.post(call, 1), Posted::kAccepted);
      auto ended = finish(group, 1);
      ASSERT_TRUE(ended);
      EXPECT_FALSE(ended->front().status.ok());
      EXPECT_THAT(ended->front().status.message(), HasSubstr(spoil.says));
    }
    EXPECT_EQ(run_case(group, {.count = 4, .sequence = 1}, seed), "");
  });
}

TEST(ShmRendezvous, MissingMembersAreNamed) {
  ShmOptions options{.name = fresh_name(), .size = 4, .timeout = milliseconds(300)};
  std::vector<std::thread> threads;
  for (int rank : {0, 2}) {
    threads.emplace_back([options, rank]() mutable {
      options.rank = rank;
      auto group = make_shm_node_group(options);
      ASSERT_FALSE(group.ok());
      EXPECT_EQ(group.status().code(), Code::kTimeout);
      EXPECT_THAT(group.status().message(), HasSubstr("local ranks 1, 3"));
    });
  }
  for (std::thread& thread : threads) thread.join();

  options.rank = 3;
  options.timeout = milliseconds(100);
  auto group = make_shm_node_group(options);
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.status().code(), Code::kTimeout);
  EXPECT_THAT(group.status().message(), HasSubstr("no local rank 0"));
}

TEST(ShmRendezvous, StrangersAreIgnored) {
  const std::uint64_t seed = fresh_seed();
  ShmOptions options{.name = fresh_name(), .size = 2};
  std::thread leader([options, seed] {
    auto group = make_shm_node_group(options);
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    EXPECT_EQ(run_case(**group, {.count = 3}, seed), "");
  });
  std::vector<transports::LocalSocket> strangers;
  auto shape = SegmentShape::create(2, options.slot_bytes, options.slots).value();
  // Silent ones, more than are remembered, then some that talk.
  const std::string words[] = {"GET / HTTP/1.1\r\n", std::string(4096, '\xff'), "x", encode_hello(1, shape, "wrong"),
                               encode_hello(1, shape, options.name)};  // the last without a doorbell
  while (strangers.size() < 100) {
    auto connected = transports::LocalSocket::try_connect(rendezvous_address(options.name));
    ASSERT_TRUE(connected.ok());
    if (!connected->has_value()) {
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    strangers.push_back(std::move(**connected));
    const std::size_t speaks = strangers.size() < 80 ? 5 : strangers.size() % 5;
    if (speaks < 5) (void)strangers.back().send(words[speaks], {}, Deadline::after(milliseconds(100))).ok();
  }
  options.rank = 1;
  auto group = make_shm_node_group(options);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_EQ(run_case(**group, {.count = 3}, seed), "");
  leader.join();
}

TEST(ShmRendezvous, MembersThatDifferFailOnBothSides) {
  struct {
    const char* says;
    ShmOptions other;
  } const others[] = {{"slot_bytes is", {.name = {}, .rank = 1, .size = 2, .slot_bytes = 4096}},
                      {"slots is", {.name = {}, .rank = 1, .size = 2, .slots = 16}},
                      {"size is", {.name = {}, .rank = 1, .size = 3}}};
  for (const auto& other : others) {
    ShmOptions options{.name = fresh_name(), .size = 2};
    std::thread leader([&] {
      auto group = make_shm_node_group(options);
      ASSERT_FALSE(group.ok());
      EXPECT_EQ(group.status().code(), Code::kMismatch);
      EXPECT_THAT(group.status().message(), HasSubstr(other.says));
    });
    ShmOptions mine = other.other;
    mine.name = options.name;
    auto group = make_shm_node_group(mine);
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.status().code(), Code::kMismatch);
    EXPECT_THAT(group.status().message(), HasSubstr(other.says));
    leader.join();
  }
}

TEST(ShmRendezvous, AMemberThatDiesWhileFormingIsNamed) {
  ShmOptions options{.name = fresh_name(), .size = 3};
  const pid_t child = ::fork();
  if (child == 0) {
    options.rank = 2;
    (void)make_shm_node_group(options).ok();
    ::_exit(0);
  }
  std::thread killer([child] {
    std::this_thread::sleep_for(milliseconds(300));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  });
  auto group = make_shm_node_group(options);
  killer.join();
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.status().code(), Code::kPeerFailed);
  EXPECT_THAT(group.status().message(), HasSubstr("local rank 2 ended"));
}

TEST(ShmRendezvous, BadOptionsAndExhaustionAreTypedErrors) {
  auto code = [](const ShmOptions& options) { return make_shm_node_group(options).status().code(); };
  EXPECT_EQ(code({.name = "x", .size = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code({.name = "x", .rank = 2, .size = 2}), Code::kInvalidArgument);
  EXPECT_EQ(code({.name = "x", .rank = -1, .size = 2}), Code::kInvalidArgument);
  EXPECT_EQ(code({.name = "", .size = 2}), Code::kInvalidArgument);
  EXPECT_EQ(code({.name = "x", .size = 2, .slot_bytes = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code({.name = "x", .size = 2, .slot_bytes = ~0ull}), Code::kInvalidArgument);
  EXPECT_EQ(code({.name = "x", .size = 2, .slots = 0}), Code::kInvalidArgument);
  auto big = make_shm_node_group({.name = "x", .size = 1, .slot_bytes = 1ull << 38});
  ASSERT_FALSE(big.ok());
  EXPECT_EQ(big.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(big.status().message(), HasSubstr("MiB"));
}

TEST(ShmNodeGroup, NothingIsLeftBehind) {
  const std::uint64_t seed = fresh_seed();
  const std::size_t before = footprint();
  for (int round = 0; round < 3; ++round) {
    as_threads({.name = {}, .size = 3}, Mapping::kEach, [&](NodeGroup& group) {
      EXPECT_EQ(run_case(group, {.count = 300}, seed), "");
      // Ends with a call outstanding on one rank.
      Exchange exchange({.count = 5, .sequence = 1}, static_cast<std::uint32_t>(group.rank()), 3, seed);
      if (group.rank() == 0) {
        EXPECT_EQ(group.post(exchange.call(), 0), Posted::kAccepted);
      }
    });
    (void)make_shm_node_group({.name = fresh_name(), .size = 2, .timeout = milliseconds(20)}).ok();
  }
  EXPECT_EQ(footprint(), before);
}

}  // namespace
}  // namespace foldcast::hierarchy
