// Ranks as processes, killed in every way a job dies: what a thread cannot stand in for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "core/bootstrap/store.h"
#include "tests/core/bootstrap/free_port.h"
#include "tests/core/bootstrap/store_job.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Child processes of a test; killed by pid and reaped at its end, whatever happened.
class Processes {
 public:
  ~Processes() {
    for (pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  pid_t start(const std::function<void()>& body) {
    pid_t pid = ::fork();
    if (pid == 0) {
      ::alarm(20);  // no child outlives a stuck test
      body();
      ::_exit(0);
    }
    pids_.push_back(pid);
    return pid;
  }

 private:
  std::vector<pid_t> pids_;
};

/// What a rank that survives tells the test, over a pipe, one line each.
class Report {
 public:
  Report() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Report() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void say(const std::string& line) const {
    std::string text = line + "\n";
    (void)!::write(ends_[1], text.data(), text.size());  // below PIPE_BUF: lines of several ranks do not mix
  }
  /// The next line, or what went wrong.
  std::string hear(std::chrono::milliseconds limit) const {
    Deadline deadline = Deadline::after(limit);
    std::string line;
    for (;;) {
      pollfd entry{ends_[0], POLLIN, 0};
      if (::poll(&entry, 1, deadline.poll_timeout()) <= 0) return "nothing heard in time";
      char byte;
      if (::read(ends_[0], &byte, 1) != 1 || byte == '\n') return line;
      line += byte;
    }
  }

 private:
  int ends_[2];
};

enum class WaitsIn { kGather, kGet, kPoll };

/// Joins, says "ready", waits in one of the store's calls until something ends it, and says what that was.
void be_a_rank(const StoreOptions& options, WaitsIn where, const Report& report) {
  auto store = Store::create(options);
  if (!store.ok()) return report.say("cannot join: " + store.status().to_string());
  auto start = (*store)->gather("start", everyone(options.size), "", Deadline::after(10s));
  report.say(start.ok() ? "ready" : start.status().to_string());
  if (where == WaitsIn::kGather) {
    report.say((*store)->gather("never", everyone(options.size), "", Deadline::after(15s)).status().to_string());
  } else if (where == WaitsIn::kGet) {
    report.say((*store)->get("never", Deadline::after(15s)).status().to_string());
  } else {
    for (;;) {
      if (auto failed = (*store)->failed_peer()) {
        report.say("rank " + std::to_string(failed->rank) + " (" + failed->name + ") failed");
        break;
      }
      pollfd entry{(*store)->descriptor(), POLLIN, 0};
      (void)::poll(&entry, 1, 15000);
    }
  }
}

struct Kill {
  int size;
  int victim;
  WaitsIn where;
};

class KilledRank : public testing::TestWithParam<Kill> {};

std::vector<Kill> all_kills() {
  std::vector<Kill> kills;
  for (int size : {2, 3, 5}) {
    for (int victim : {0, size - 1}) {
      for (WaitsIn where : {WaitsIn::kGather, WaitsIn::kGet, WaitsIn::kPoll}) kills.push_back({size, victim, where});
    }
  }
  return kills;
}

std::string name_of(const testing::TestParamInfo<Kill>& test) {
  constexpr const char* kWhere[] = {"gather", "get", "poll"};
  return "size" + std::to_string(test.param.size) + "_victim" + std::to_string(test.param.victim) + "_" +
         kWhere[static_cast<int>(test.param.where)];
}

INSTANTIATE_TEST_SUITE_P(All, KilledRank, testing::ValuesIn(all_kills()), name_of);

TEST_P(KilledRank, IsNamedToAllOthersWithinASecond) {
  auto [size, victim, where] = GetParam();
  std::uint16_t port = free_port();
  Report report;
  Processes processes;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    pids.push_back(processes.start([&, rank = rank] {
      // The victim must not be heard, and must be waiting like the others when it is killed.
      be_a_rank(options_of(rank, size, port), rank == victim ? WaitsIn::kPoll : where, report);
    }));
  }
  for (int rank = 0; rank < size; ++rank) ASSERT_EQ(report.hear(15s), "ready");
  std::this_thread::sleep_for(50ms);  // they get to their second call
  auto begin = Deadline::Clock::now();
  ASSERT_EQ(::kill(pids[static_cast<std::size_t>(victim)], SIGKILL), 0);
  std::string who = "rank " + std::to_string(victim) + " (node" + std::to_string(victim) + ") failed";
  for (int others = size - 1; others > 0; --others) EXPECT_THAT(report.hear(3s), HasSubstr(who));
  EXPECT_LT(Deadline::Clock::now() - begin, 1s);
}

TEST(Processes, ARankThatExitsWithoutFarewellFailed) {
  std::uint16_t port = free_port();
  Report report;
  Processes processes;
  processes.start([&] { be_a_rank(options_of(0, 2, port), WaitsIn::kPoll, report); });
  processes.start([&] {
    auto store = Store::create(options_of(1, 2, port));
    (void)(*store)->gather("start", everyone(2), "", Deadline::after(10s));
    ::_exit(3);
  });
  EXPECT_EQ(report.hear(15s), "ready");
  EXPECT_EQ(report.hear(2s), "rank 1 (node1) failed");
}

TEST(Processes, AStoppedRankIsNoFailureButRunsIntoTheDeadlineByName) {
  std::uint16_t port = free_port();
  Report report;
  Processes processes;
  pid_t stopped = processes.start([&] { be_a_rank(options_of(1, 2, port), WaitsIn::kPoll, report); });
  processes.start([&] {
    auto store = Store::create(options_of(0, 2, port));
    (void)(*store)->gather("start", everyone(2), "", Deadline::after(10s));
    std::this_thread::sleep_for(500ms);  // until it is stopped
    auto status = (*store)->gather("next", everyone(2), "", Deadline::after(300ms)).status();
    report.say((*store)->failed_peer() ? "it was declared dead" : status.to_string());
    ::_exit(0);
  });
  EXPECT_EQ(report.hear(15s), "ready");
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  EXPECT_THAT(report.hear(5s), HasSubstr("rank 1 (node1)"));
}

TEST(Processes, AStoppedRankZeroEndsTheWaitsOfTheOthers) {
  std::uint16_t port = free_port();
  Report report;
  Processes processes;
  pid_t zero = processes.start([&] { be_a_rank(options_of(0, 2, port), WaitsIn::kPoll, report); });
  processes.start([&] {
    auto store = Store::create(options_of(1, 2, port));
    (void)(*store)->gather("start", everyone(2), "", Deadline::after(10s));
    std::this_thread::sleep_for(500ms);
    report.say((*store)->get("key", Deadline::after(200ms)).status().to_string());
  });
  EXPECT_EQ(report.hear(15s), "ready");
  ASSERT_EQ(::kill(zero, SIGSTOP), 0);
  EXPECT_THAT(report.hear(5s), HasSubstr("waiting for rank 0 (node0)"));
}

TEST(Processes, AForkedChildThatExitsLeavesTheMembershipAlone) {
  std::uint16_t port = free_port();
  auto zero = Store::create(options_of(0, 2, port));
  ASSERT_TRUE(zero.ok());
  auto one = Store::create(options_of(1, 2, port));
  ASSERT_TRUE(one.ok());
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    one = aborted("destroyed in the child");
    zero = aborted("destroyed in the child");
    ::_exit(7);
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 7);
  EXPECT_TRUE((*one)->set("key", "value").ok());
  EXPECT_EQ(*(*zero)->get("key", Deadline::after(5s)), "value");
  EXPECT_FALSE((*zero)->failed_peer().has_value());
  EXPECT_FALSE((*one)->failed_peer().has_value());
  one = aborted("closed");
}

TEST(Processes, KillsAtRandomMomentsGiveTheSameAnswerToAllThatLive) {
  auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr int kSize = 4;
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::uint16_t port = free_port();
    Report report;
    Processes processes;
    std::vector<pid_t> pids;
    for (int rank = 0; rank < kSize; ++rank) {
      pids.push_back(processes.start([&, rank] {
        auto store = Store::create(options_of(rank, kSize, port));
        if (!store.ok()) return report.say("cannot join: " + store.status().to_string());
        (void)(*store)->gather("start", everyone(kSize), "", Deadline::after(10s));
        report.say("ready");
        // Counts how many agreements succeeded: all survivors must stop at the same one.
        for (int round = 0;; ++round) {
          auto name = "round " + std::to_string(round);
          if (!(*store)->gather(name, everyone(kSize), "v", Deadline::after(10s)).ok()) {
            return report.say(name);
          }
        }
      }));
    }
    for (int rank = 0; rank < kSize; ++rank) ASSERT_EQ(report.hear(15s), "ready");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    ::kill(pids[1 + random() % (kSize - 1)], SIGKILL);
    std::string first = report.hear(5s);
    EXPECT_THAT(first, testing::StartsWith("round "));
    for (int others = kSize - 2; others > 0; --others) EXPECT_EQ(report.hear(5s), first);
  }
}

}  // namespace
}  // namespace foldcast::bootstrap
