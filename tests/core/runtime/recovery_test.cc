// A group that survives its tree: members with executors of their own over an in-process network, and a tree that is
// lost at a fragment of the seed's choice, after some members have its result and others have not. One thread drives
// all, in an order of the seed's choice, so a failing seed fails again.

#include "core/runtime/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "core/base/deadline.h"
#include "transports/inproc/inproc.h"

namespace foldcast::runtime {
namespace {

using ::testing::HasSubstr;
using Random = std::mt19937_64;

constexpr std::uint64_t kFragment = 256;
constexpr std::uint32_t kWindow = 4;

/// The switch of a fake tree: adds int64 up, fragment by fragment, and is lost when it was told to be.
class Hub {
 public:
  Hub(std::uint32_t members, std::uint64_t lost_at, Random& random)
      : contributions_(members), results_(members), lost_at_(lost_at), random_(random) {}

  void contribute(std::uint32_t member, std::vector<std::int64_t> values) {
    const std::lock_guard lock(mutex_);
    contributions_[member].push_back(std::move(values));
    for (const auto& own : contributions_) {
      if (own.size() <= done_) return;
    }
    if (lost_) return;
    std::vector<std::int64_t> sum = contributions_[0][done_];
    for (std::size_t m = 1; m < contributions_.size(); ++m) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += contributions_[m][done_][i];
    }
    // The last result reaches only some, perhaps nobody.
    const bool last = done_ == lost_at_;
    for (auto& results : results_) {
      if (!last || random_() % 2 == 0) results.push_back(sum);
    }
    ++done_;
    lost_ = lost_ || last;
  }
  /// Result `index` for a member, if it is there.
  std::optional<std::vector<std::int64_t>> result(std::uint32_t member, std::uint64_t index) {
    const std::lock_guard lock(mutex_);
    if (index >= results_[member].size()) return std::nullopt;
    return results_[member][index];
  }
  bool lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::vector<std::int64_t>>> contributions_, results_;
  std::uint64_t done_ = 0;
  std::uint64_t lost_at_;
  bool lost_ = false;
  Random& random_;
};

/// How a member sees the loss of its tree.
enum class Sees { kAtOnce, kSoon, kLate };

class FakeTree final : public offload::OffloadGroup {
 public:
  FakeTree(std::shared_ptr<Hub> hub, std::uint32_t member, Sees sees)
      : hub_(std::move(hub)), member_(member), sees_(sees) {}

  Posted post(const EngineCall& call, std::uint64_t cookie) override {
    if (outstanding_.size() == kWindow) return Posted::kRetry;
    std::vector<std::int64_t> values(call.count);
    if (call.count > 0) std::memcpy(values.data(), call.input, call.count * sizeof values[0]);
    outstanding_.push_back({cookie, call.output});
    hub_->contribute(member_, std::move(values));
    return Posted::kAccepted;
  }
  std::size_t poll(std::span<Completion> out) override {
    std::size_t count = 0;
    for (; count < out.size() && !outstanding_.empty(); ++count) {
      if (auto result = hub_->result(member_, next_)) {
        if (!result->empty()) std::memcpy(outstanding_.front().output, result->data(), result->size() * 8);
        out[count] = {.cookie = outstanding_.front().cookie, .status = {}, .bytes = 0, .signature = {}};
        ++next_;
      } else if (hub_->lost() && (sees_ == Sees::kAtOnce || ++asked_ > (sees_ == Sees::kSoon ? 20 : 2000))) {
        out[count] = {
            .cookie = outstanding_.front().cookie, .status = peer_failed("the hub"), .bytes = 0, .signature = {}};
      } else {
        break;
      }
      outstanding_.pop_front();
    }
    return count;
  }
  int descriptor() const override { return -1; }
  bool arm() override { return false; }
  void cancel(std::uint32_t) override { outstanding_.clear(); }
  GroupCaps caps() const override { return {}; }
  std::string describe() const override { return "a fake tree"; }

 private:
  struct Outstanding {
    std::uint64_t cookie;
    std::byte* output;
  };
  std::shared_ptr<Hub> hub_;
  std::uint32_t member_;
  Sees sees_;
  std::deque<Outstanding> outstanding_;
  std::uint64_t next_ = 0;
  int asked_ = 0;
};

/// All members, their calls, and the thread that drives them.
class World {
 public:
  World(std::uint32_t members, std::uint64_t seed) : seed_(seed), random_(seed), members_(members) {
    const auto network = transports::make_inproc_network();
    for (auto& member : members_) member.transport = transports::make_inproc(network);
    hub_ = make_hub(Random(seed));
    for (std::uint32_t m = 0; m < members; ++m) set_up(m);
  }

  struct Call {
    std::vector<std::int64_t> input, output, expected;
    bool in_place = false;
  };
  struct Member {
    std::unique_ptr<transports::Transport> transport;
    Executor executor;
    std::unique_ptr<RecoveringGroup> group;
    std::deque<std::uint64_t> heard;
    std::vector<Call> calls;
    std::size_t posted = 0, ended = 0;
  };

  /// Random calls, the same on all; each member's own numbers.
  void plan(std::size_t calls) {
    for (std::size_t c = 0; c < calls; ++c) {
      const std::uint64_t kinds[] = {0, 1, 7, random_() % 40, random_() % 400, 3 * kFragment / 8, 2000};
      const std::uint64_t count = kinds[random_() % std::size(kinds)];
      std::vector<std::int64_t> sum(count, 0);
      for (auto& member : members_) {
        Call call;
        for (std::uint64_t i = 0; i < count; ++i) {
          call.input.push_back(static_cast<std::int64_t>(random_()) / 16);
          sum[i] += call.input.back();
        }
        call.in_place = random_() % 2 == 0;
        call.output = call.in_place ? call.input : std::vector<std::int64_t>(count, -1);
        member.calls.push_back(std::move(call));
      }
      for (auto& member : members_) member.calls.back().expected = sum;
    }
  }
  /// Drives them until all calls have ended; false when that takes more than ten seconds.
  bool run(std::size_t depth) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    for (std::size_t done = 0; done < members_.size();) {
      if (deadline.passed()) return false;
      const std::size_t m = random_() % members_.size();
      done = turn(m, depth);
    }
    return true;
  }
  std::uint64_t total(std::uint64_t RecoveringGroup::Counters::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& member : members_) sum += member.group->counters().*counter;
    return sum;
  }
  Member& member(std::size_t m) { return members_[m]; }
  std::vector<Status>& failures() { return failures_; }
  /// Later trees are lost at fragments of the seed's choice as well, until there have been so many.
  std::uint32_t trees_to_lose = 1;
  bool may_return = true;

 private:
  std::shared_ptr<Hub> make_hub(Random&& random) {
    const std::uint64_t lost_at = hubs_ < trees_to_lose ? random() % 60 : ~0ull;
    ++hubs_;
    return std::make_shared<Hub>(static_cast<std::uint32_t>(members_.size()), lost_at, random_);
  }
  Sees sees(std::uint32_t member) { return static_cast<Sees>((random_() + member) % 3); }

  void set_up(std::uint32_t m) {
    Member& own = members_[m];
    RecoverySetup setup;
    setup.name = "tree 0";
    setup.caps.slots = kWindow;
    setup.caps.fragment_bytes = kFragment;
    setup.patience = std::chrono::milliseconds(1);
    // Small calls one way, large ones another.
    setup.price = [](std::string_view algorithm, std::uint64_t bytes) {
      return (algorithm == "recursive_doubling") == (bytes < 2000) ? 1.0 : algorithm == "ring" ? 2.0 : 3.0;
    };
    setup.endpoints.rank = static_cast<std::int32_t>(m);
    setup.endpoints.communicator = 77;
    for (std::uint32_t other = 0; other < members_.size(); ++other) {
      const std::string name = "rank " + std::to_string(other);
      setup.endpoints.world_ranks.push_back(static_cast<std::int32_t>(other));
      setup.endpoints.routes.push_back(own.transport.get());
      setup.endpoints.peers.push_back(*own.transport->connect(members_[other].transport->address(), name));
      setup.endpoints.names.push_back(name);
    }
    setup.tell = [this, m](std::uint64_t value) {
      for (std::size_t other = 0; other < members_.size(); ++other) {
        if (other != m) members_[other].heard.push_back(value);
      }
    };
    setup.join = [this, m](std::uint32_t attempt) -> Result<std::unique_ptr<offload::OffloadGroup>> {
      if (!may_return) return unavailable("nobody listens");
      const std::lock_guard lock(joining_);
      auto& hub = rejoined_[attempt];
      if (!hub) hub = make_hub(Random(seed_ + attempt));
      return std::unique_ptr<offload::OffloadGroup>(std::make_unique<FakeTree>(hub, m, Sees::kAtOnce));
    };
    own.executor.add_engine(own.transport.get());
    own.group = *RecoveringGroup::create(own.executor, std::move(setup), std::make_unique<FakeTree>(hub_, m, sees(m)));
  }

  /// One turn of one member; how many have ended all their calls.
  std::size_t turn(std::size_t m, std::size_t depth) {
    Member& own = members_[m];
    while (!own.heard.empty()) {
      own.group->hear(own.heard.front());
      own.heard.pop_front();
    }
    if (own.posted < own.calls.size() && own.posted - own.ended < depth) {
      Call& call = own.calls[own.posted];
      EngineCall posted;
      posted.verb = Verb::kAllReduce;
      posted.count = call.expected.size();
      posted.output = reinterpret_cast<std::byte*>(call.output.data());
      posted.input = call.in_place ? posted.output : reinterpret_cast<const std::byte*>(call.input.data());
      posted.signature = {
          Collective::kAllReduce, Datatype::kInt64, ReduceOp::kSum, WireFormat::kExact, 0, posted.count};
      if (own.group->post(posted, own.posted) == Posted::kAccepted) ++own.posted;
    }
    Completion done[8];
    const std::size_t got = own.group->poll(done);
    for (std::size_t i = 0; i < got; ++i) {
      EXPECT_EQ(done[i].cookie, own.ended) << "calls end in their order";
      if (done[i].status.ok()) {
        EXPECT_EQ(own.calls[own.ended].output, own.calls[own.ended].expected);
      } else {
        failures_.push_back(done[i].status);
      }
      // It is the caller's again, who may do with it what he likes.
      std::fill(own.calls[own.ended].output.begin(), own.calls[own.ended].output.end(), -7);
      std::fill(own.calls[own.ended].input.begin(), own.calls[own.ended].input.end(), -7);
      ++own.ended;
    }
    own.executor.progress();
    if (!own.group->on_tree()) std::this_thread::yield();
    return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(),
                                                  [](const Member& one) { return one.ended == one.calls.size(); }));
  }

  const std::uint64_t seed_;
  Random random_;
  std::uint32_t hubs_ = 0;
  // Before the members: one may still be joining when it ends.
  std::shared_ptr<Hub> hub_;
  std::mutex joining_;
  std::map<std::uint32_t, std::shared_ptr<Hub>> rejoined_;
  std::vector<Member> members_;
  std::vector<Status> failures_;
};

TEST(RecoveringGroup, EveryCallIsRightWhereverTheTreeIsLost) {
  std::uint64_t losses = 0, patched = 0, host_calls = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(static_cast<std::uint32_t>(2 + seed % 4), seed);
    world.may_return = false;
    world.plan(30);
    ASSERT_TRUE(world.run(1 + seed % 3)) << "hangs";
    EXPECT_TRUE(world.failures().empty()) << world.failures().front().to_string();
    losses += world.total(&RecoveringGroup::Counters::losses);
    patched += world.total(&RecoveringGroup::Counters::patched_bytes);
    host_calls += world.total(&RecoveringGroup::Counters::host_calls);
    if (HasFailure()) break;
  }
  EXPECT_GT(losses, 300u) << "the fault did not happen";
  EXPECT_GT(patched, 0u) << "nobody lacked what another had";
  EXPECT_GT(host_calls, 0u);
}

TEST(RecoveringGroup, ReturnsToTheTreeAndSurvivesItAgain) {
  std::uint64_t losses = 0, returns = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto members = static_cast<std::uint32_t>(2 + seed % 4);
    World world(members, seed);
    world.trees_to_lose = 3;
    world.plan(400);
    ASSERT_TRUE(world.run(1 + seed % 3)) << "hangs";
    EXPECT_TRUE(world.failures().empty()) << world.failures().front().to_string();
    losses += world.total(&RecoveringGroup::Counters::losses);
    returns += world.total(&RecoveringGroup::Counters::returns);
    if (HasFailure()) break;
  }
  EXPECT_GT(losses, 100u);
  EXPECT_GT(returns, 100u);
}

TEST(RecoveringGroup, SaysWhatHasBecomeOfTheTree) {
  World world(2, 4);
  world.may_return = false;
  EXPECT_EQ(world.member(0).group->news(), "");
  EXPECT_EQ(world.member(0).group->describe(), "a fake tree");
  world.plan(100);
  ASSERT_TRUE(world.run(1));
  EXPECT_FALSE(world.member(0).group->on_tree());
  EXPECT_THAT(world.member(0).group->news(), HasSubstr("lost 1 times"));
  EXPECT_THAT(world.member(0).group->describe(), HasSubstr("host path"));
}

TEST(RecoveringGroup, CancelEndsAllAndLeavesTheBuffersAlone) {
  World world(3, 5);
  world.plan(3);
  auto& one = world.member(1);
  EngineCall call;
  call.verb = Verb::kAllReduce;
  call.count = one.calls[0].expected.size();
  call.input = call.output = reinterpret_cast<std::byte*>(one.calls[0].output.data());
  call.signature = {Collective::kAllReduce, Datatype::kInt64, ReduceOp::kSum, WireFormat::kExact, 0, call.count};
  ASSERT_EQ(one.group->post(call, 3), Posted::kAccepted);
  one.group->cancel(1);
  ASSERT_EQ(one.group->post(call, 4), Posted::kAccepted);
  Completion done[4];
  ASSERT_EQ(one.group->poll(done), 2u);
  EXPECT_EQ(done[0].status.code(), Code::kAborted);
  EXPECT_EQ(done[1].status.code(), Code::kAborted);
}

}  // namespace
}  // namespace foldcast::runtime
