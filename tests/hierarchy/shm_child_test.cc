// Groups over some of a group's members: many of them on one doorbell.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/hierarchy/node_group_fixture.h"

namespace foldcast::hierarchy {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::unique_ptr<NodeGroup> child_of(const NodeGroup& parent, const std::string& name, std::vector<int> members) {
  auto made = make_shm_child_group(parent, {.name = name, .members = std::move(members)});
  if (!made.ok()) ADD_FAILURE() << made.status().to_string();
  return made.ok() ? std::move(*made) : nullptr;
}

TEST(ShmChild, EveryVerbAmongSomeInAnotherOrder) {
  const std::uint64_t seed = fresh_seed();
  const std::string name = fresh_name();
  as_threads({.name = {}, .size = 4}, Mapping::kEach, [&](NodeGroup& parent) {
    if (parent.rank() == 2) return;
    auto child = child_of(parent, name, {3, 0, 1});
    ASSERT_NE(child, nullptr);
    EXPECT_EQ(child->size(), 3);
    EXPECT_EQ(child->rank(), parent.rank() == 3 ? 0 : parent.rank() + 1);
    EXPECT_EQ(child->descriptor(), parent.descriptor());
    std::uint64_t sequence = 0;
    for (std::uint64_t count : {0u, 1u, 5u, 300u, 100003u}) {
      for (int verb = static_cast<int>(Verb::kAllReduce); verb <= static_cast<int>(Verb::kAllToAll); ++verb) {
        Case one = fit({.verb = static_cast<Verb>(verb), .count = count, .owners = 2, .root = 1}, 3);
        one.in_place = ++sequence % 2 == 0;
        one.sequence = sequence;
        ASSERT_EQ(run_case(*child, one, seed), "") << "seed " << seed;
      }
    }
  });
}

TEST(ShmChild, OutlivesItsParentAndHasChildren) {
  const std::uint64_t seed = fresh_seed();
  const std::string name = fresh_name();
  auto parents = [&](int rank) {
    auto parent = make_shm_node_group({.name = name, .rank = rank, .size = 3});
    ASSERT_TRUE(parent.ok());
    auto child = child_of(**parent, name + "a", {2, 1, 0});
    parent->reset();
    if (rank == 1) return;
    auto grandchild = child_of(*child, name + "b", {2, 0});
    child.reset();
    EXPECT_EQ(grandchild->rank(), rank == 0 ? 0 : 1);
    EXPECT_EQ(run_case(*grandchild, {.count = 77}, seed), "");
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) threads.emplace_back(parents, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(ShmChild, HundredsCostNoDescriptors) {
  const std::uint64_t seed = fresh_seed();
  const std::string name = fresh_name();
  std::atomic<std::size_t> before{0};
  as_threads({.name = {}, .size = 2}, Mapping::kEach, [&](NodeGroup& parent) {
    ASSERT_EQ(run_case(parent, {.verb = Verb::kBarrier, .sequence = 1}, seed), "");
    if (parent.rank() == 0) before = open_descriptors();
    ASSERT_EQ(run_case(parent, {.verb = Verb::kBarrier, .sequence = 2}, seed), "");
    std::vector<std::unique_ptr<NodeGroup>> children;
    for (int i = 0; i < 300; ++i) {
      children.push_back(
          child_of(parent, name + std::to_string(i), i % 2 == 0 ? std::vector{0, 1} : std::vector{1, 0}));
      ASSERT_NE(children.back(), nullptr);
      ASSERT_EQ(run_case(*children.back(), {.count = 9}, seed), "");
    }
    ASSERT_EQ(run_case(parent, {.verb = Verb::kBarrier, .sequence = 3}, seed), "");
    if (parent.rank() == 0) {
      EXPECT_EQ(open_descriptors(), before);
    }
    ASSERT_EQ(run_case(parent, {.verb = Verb::kBarrier, .sequence = 4}, seed), "");
    for (auto& child : children) ASSERT_EQ(run_case(*child, {.count = 5000, .sequence = 1}, seed), "");
  });
}

TEST(ShmChild, WrongMembersAreRefused) {
  auto parent = make_shm_node_group({.name = "x", .size = 1});
  ASSERT_TRUE(parent.ok());
  for (const std::vector<int>& members : {std::vector<int>{}, {1}, {-1}, {0, 0}, {0, 1}}) {
    auto child = make_shm_child_group(**parent, {.name = "y", .members = members});
    ASSERT_FALSE(child.ok());
    EXPECT_EQ(child.status().code(), Code::kInvalidArgument);
  }
}

TEST(ShmChild, MissingMembersAreNamed) {
  const std::string name = fresh_name();
  as_threads({.name = {}, .size = 3}, Mapping::kEach, [&](NodeGroup& parent) {
    if (parent.rank() == 1) return;
    auto child = make_shm_child_group(parent, {.name = name, .members = {2, 1, 0}, .timeout = milliseconds(200)});
    ASSERT_FALSE(child.ok());
    EXPECT_THAT(child.status().message(), HasSubstr("local ranks 1"));
  });
}

/// One rank of a job that has calls outstanding on many groups and sleeps as an executor does: arms those it polled,
/// leaves armed those it did not, and polls all that share the descriptor when that is readable.
class Sleeper {
 public:
  explicit Sleeper(std::vector<NodeGroup*> groups) : groups_(std::move(groups)), awake_(groups_.size(), true) {}

  void post(std::size_t group, const EngineCall& call, std::uint64_t cookie) {
    awake_[group] = true;
    ASSERT_EQ(groups_[group]->post(call, cookie), Posted::kAccepted);
    ++outstanding_;
  }

  /// Polls what is awake; when that gave nothing, sleeps, for `most_ms` at most. False when nothing rang.
  bool turn(std::vector<std::uint64_t>& ended, int most_ms) {
    bool moved = false;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (!awake_[i]) continue;
      Completion some[4];
      for (std::size_t n = groups_[i]->poll(some); n > 0; --n) {
        EXPECT_TRUE(some[n - 1].status.ok()) << some[n - 1].status.to_string();
        ended.push_back(some[n - 1].cookie);
        --outstanding_;
        moved = true;
      }
    }
    if (moved || outstanding_ == 0) return true;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (!awake_[i]) continue;
      if (!groups_[i]->arm()) return true;
      awake_[i] = false;
    }
    pollfd sleep{groups_.front()->descriptor(), POLLIN, 0};
    if (::poll(&sleep, 1, most_ms) != 1) return false;
    awake_.assign(awake_.size(), true);
    return true;
  }
  std::size_t outstanding() const { return outstanding_; }

 private:
  std::vector<NodeGroup*> groups_;
  std::vector<bool> awake_;
  std::size_t outstanding_ = 0;
};

TEST(ShmChild, NoGroupTakesAnothersRing) {
  const std::uint64_t seed = fresh_seed();
  const std::string name = fresh_name();
  constexpr int kChildren = 6;
  constexpr int kRounds = 1500;
  for (int size : {2, 3}) {
    as_threads({.name = {}, .size = size}, Mapping::kEach, [&](NodeGroup& parent) {
      std::vector<int> members(static_cast<std::size_t>(size));
      for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
      std::vector<std::unique_ptr<NodeGroup>> children;
      std::vector<NodeGroup*> groups{&parent};
      for (int i = 0; i < kChildren; ++i) {
        children.push_back(child_of(parent, name + std::to_string(size) + "-" + std::to_string(i), members));
        ASSERT_NE(children.back(), nullptr);
        groups.push_back(children.back().get());
      }
      Sleeper sleeper(groups);
      std::mt19937_64 common(seed), own(seed + static_cast<std::uint64_t>(parent.rank()) + 1);
      std::vector<std::uint64_t> ended;
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        // The same groups on all ranks, each in an order and at a time of its own.
        std::vector<std::size_t> chosen;
        for (std::size_t i = 0; i < groups.size(); ++i) {
          if (common() % 2 == 0) chosen.push_back(i);
        }
        std::shuffle(chosen.begin(), chosen.end(), own);
        std::vector<std::unique_ptr<Exchange>> exchanges;
        for (const std::size_t group : chosen) {
          const Case one{.count = round % 50 == 0 ? 9000u : 3u, .sequence = round};
          exchanges.push_back(std::make_unique<Exchange>(one, static_cast<std::uint32_t>(parent.rank()), size, seed));
          sleeper.post(group, exchanges.back()->call(), group);
          // Nobody may wait yet: others may need a call that this rank has still to post.
          if (own() % 3 == 0) (void)sleeper.turn(ended, 0);
        }
        while (sleeper.outstanding() > 0) ASSERT_TRUE(sleeper.turn(ended, 20000)) << "hangs, seed " << seed;
        for (const auto& exchange : exchanges) ASSERT_EQ(exchange->check(), "") << "seed " << seed;
      }
    });
  }
}

}  // namespace
}  // namespace foldcast::hierarchy
