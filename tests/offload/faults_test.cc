// What happens to a group when something in it fails, on real daemons and connections.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "fixture.h"
#include "offload/protocol/control.h"

namespace foldcast::offload {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

DaemonOptions small() {
  DaemonOptions options;
  options.window = 4;
  options.fragment = 1024;
  return options;
}

/// Holds members until as many as are needed have come this far.
class Gate {
 public:
  explicit Gate(std::size_t parties) : parties_(parties) {}
  void arrive() { ++arrived_; }
  void wait() const {
    const Deadline deadline = Deadline::after(20s);  // of a test that has failed already
    while (arrived_.load() < parties_ && !deadline.passed()) std::this_thread::sleep_for(1ms);
  }

 private:
  const std::size_t parties_;
  std::atomic<std::size_t> arrived_{0};
};

TEST(Faults, FullAggregatorRefusesAllMembersAtOnce) {
  DaemonOptions options = small();
  options.limits.memory = 4 * 1024 * 4 - 1;  // the root of two leaves needs two landing buffers and a sum
  Fabric fabric(options);
  fabric.build({-1, 0, 0}, 4);
  const auto start = std::chrono::steady_clock::now();
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    const auto group = provider.join(fabric.request(member));
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.status().code(), Code::kResourceExhausted) << group.status().to_string();
    EXPECT_THAT(group.status().message(), HasSubstr("is full"));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_TRUE(fabric.daemon(v).eventually([](const auto& s) { return s.groups == 0 && s.memory == 0; }));
  }
}

TEST(Faults, SecondGroupIsRefusedUntilTheFirstHasLeft) {
  DaemonOptions options = small();
  options.limits.groups = 1;
  Fabric fabric(options);
  fabric.build({-1}, 1);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto first = provider.join(fabric.request(member, kGroupBit | 1));
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    const auto second = provider.join(fabric.request(member, kGroupBit | 2));
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.status().message(), HasSubstr("all 1 groups are in use"));
    first->reset();
    EXPECT_TRUE(fabric.daemon(0).eventually([](const auto& s) { return s.groups == 0; }));
    const auto third = provider.join(fabric.request(member, kGroupBit | 3));
    EXPECT_TRUE(third.ok()) << third.status().to_string();
    const auto spent = provider.join(fabric.request(member, kGroupBit | 1));
    ASSERT_FALSE(spent.ok());
    EXPECT_THAT(spent.status().message(), HasSubstr("new group id"));
  });
}

TEST(Faults, MissingMemberIsNamedWhenFormingTimesOut) {
  Fabric fabric(small());
  fabric.build({-1, 0, 0}, 4);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    if (member == 2) return;
    auto request = fabric.request(member);
    request.timeout = 1500ms;
    const auto group = provider.join(request);
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.status().code(), Code::kTimeout) << group.status().to_string();
    EXPECT_THAT(group.status().message(), AnyOf(HasSubstr("member 2 (host2)"), HasSubstr("aggregator switch1")));
  });
}

TEST(Faults, UnreachableAggregatorIsNamed) {
  Fabric fabric(small());
  fabric.build({-1, 0}, 2);
  fabric.daemon(0).stop(false);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto request = fabric.request(member);
    request.timeout = 1500ms;
    const auto group = provider.join(request);
    ASSERT_FALSE(group.ok());
    EXPECT_THAT(group.status().message(), HasSubstr("aggregator switch0"));
  });
}

TEST(Faults, DifferentTreesAreAMismatch) {
  Fabric fabric(small());
  fabric.build({-1}, 2);
  Tree other = fabric.tree();
  other.hosts[1] = "elsewhere";
  std::atomic<int> mismatches{0};
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto request = fabric.request(member);
    if (member == 1) request.tree = &other;
    const auto group = provider.join(request);
    ASSERT_FALSE(group.ok());
    mismatches += group.status().code() == Code::kMismatch;
  });
  EXPECT_GE(mismatches.load(), 1);
}

/// Counts, types, operations and order that differ: everybody hears both sides, and no output is touched.
TEST(Faults, CallsThatDiffer) {
  struct Case {
    Datatype dtype;
    ReduceOp op;
    std::uint64_t count, sequence;
    const char* says;
  };
  const Case cases[] = {{Datatype::kInt32, ReduceOp::kSum, 99, 1, "all_reduce of 99 int32, sum (call 1)"},
                        {Datatype::kInt32, ReduceOp::kSum, 0, 1, "all_reduce of 0 int32"},
                        {Datatype::kFloat32, ReduceOp::kSum, 100, 1, "float32"},
                        {Datatype::kInt32, ReduceOp::kMax, 100, 1, "max"},
                        {Datatype::kInt32, ReduceOp::kSum, 100, 2, "(call 2)"}};
  for (const auto& odd : cases) {
    Fabric fabric(small());
    fabric.build({-1, 0, 0}, 4);
    fabric.run_joined([&](std::int32_t member, OffloadGroup& group) {
      std::vector<std::int32_t> input(100, 1), output(100, -7);
      auto call = all_reduce(Datatype::kInt32, ReduceOp::kSum, 100, input.data(), output.data());
      call.key.sequence = 1;
      if (member == 2) {
        call = all_reduce(odd.dtype, odd.op, odd.count, input.data(), output.data());
        call.key.sequence = odd.sequence;
      }
      group.post(call, 1);
      const auto completion = await(group);
      EXPECT_EQ(completion.status.code(), Code::kMismatch) << completion.status.to_string();
      EXPECT_THAT(completion.status.message(), HasSubstr(odd.says));
      EXPECT_THAT(completion.status.message(), HasSubstr("all_reduce of 100 int32, sum (call 1)"));
      EXPECT_EQ(output, std::vector<std::int32_t>(100, -7));
      group.post(barrier(), 2);
      EXPECT_FALSE(await(group).status.ok()) << "a broken group must stay broken";
    });
  }
}

TEST(Faults, MemberGoneMidCallIsNamedToAllOthers) {
  Fabric fabric(small());
  fabric.build({-1, 0, 0}, 5);
  Gate joined(5);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto group = provider.join(fabric.request(member));
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    joined.arrive();
    joined.wait();
    std::vector<float> values(5000, 1);
    if (member == 3) {
      // Destroyed with a call outstanding: as good as killed.
      (*group)->post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, 10, values.data(), values.data()), 1);
      group->reset();
      return;
    }
    (*group)->post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, 5000, values.data(), values.data()), 1);
    const auto start = std::chrono::steady_clock::now();
    const auto completion = await(**group);
    EXPECT_THAT(completion.status.message(), HasSubstr("member 3 (host3)"));
    EXPECT_FALSE(completion.status.ok());
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  });
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_TRUE(fabric.daemon(v).eventually([](const auto& s) { return s.groups == 0 && s.memory == 0; }));
  }
}

TEST(Faults, MemberThatLeftIsNamedToThoseWhoNeedIt) {
  Fabric fabric(small());
  fabric.build({-1, 0, 0}, 4);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto group = provider.join(fabric.request(member));
    ASSERT_TRUE(group.ok());
    (*group)->post(barrier(), 1);
    ASSERT_TRUE(await(**group).status.ok());
    if (member == 1) return;
    (*group)->post(barrier(), 2);
    const auto completion = await(**group);
    EXPECT_EQ(completion.status.code(), Code::kPeerFailed) << completion.status.to_string();
    EXPECT_THAT(completion.status.message(), HasSubstr("member 1 (host1) left"));
  });
}

class AggregatorLost : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(AggregatorLost, EndsTheCallForAll) {
  const auto [vertex, farewell] = GetParam();
  Fabric fabric(small());
  fabric.build({-1, 0, 0}, 4);
  Gate waiting(3);
  std::thread killer([&, vertex = vertex, farewell = farewell] {
    waiting.wait();
    fabric.daemon(static_cast<std::size_t>(vertex)).stop(farewell);
  });
  fabric.run_joined([&](std::int32_t member, OffloadGroup& group) {
    if (member == 3) {
      waiting.wait();
      const auto completion = await(group, 300ms);  // takes part in nothing; keeps the others waiting
      (void)completion;
    }
    std::vector<float> values(5000, 1);
    group.post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, 5000, values.data(), values.data()), 1);
    if (member != 3) waiting.arrive();
    const auto start = std::chrono::steady_clock::now();
    const auto completion = await(group);
    EXPECT_FALSE(completion.status.ok());
    EXPECT_THAT(completion.status.message(), HasSubstr("aggregator switch"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  });
  killer.join();
}

INSTANTIATE_TEST_SUITE_P(Where, AggregatorLost, ::testing::Combine(::testing::Values(0, 1), ::testing::Bool()));

/// A transport that from some time on takes everything and delivers nothing, as of an aggregator that hangs.
class Silent final : public transports::Transport {
 public:
  Silent(std::unique_ptr<transports::Transport> inner, const std::atomic<bool>& silent)
      : inner_(std::move(inner)), silent_(silent) {}
  Posted post(const EngineCall& call, std::uint64_t cookie) override {
    return silent_ ? Posted::kAccepted : inner_->post(call, cookie);
  }
  std::size_t poll(std::span<Completion> out) override { return silent_ ? 0 : inner_->poll(out); }
  int descriptor() const override { return inner_->descriptor(); }
  bool arm() override { return silent_ || inner_->arm(); }
  void cancel(std::uint32_t communicator) override { inner_->cancel(communicator); }

  std::string address() const override { return inner_->address(); }
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override {
    return inner_->connect(address, name);
  }
  void disconnect(std::int32_t) override {}
  transports::TransportCounters counters() const override { return {}; }

 private:
  std::unique_ptr<transports::Transport> inner_;
  const std::atomic<bool>& silent_;
};

TEST(Faults, SilentAggregatorMeetsTheFragmentDeadline) {
  std::atomic<bool> silent{false};
  Fabric fabric(small());
  fabric.replace_factory(0, [&](std::uint64_t token) -> Result<std::unique_ptr<transports::Transport>> {
    auto inner = fabric.factory()(token);
    if (!inner.ok()) return inner.status();
    return std::unique_ptr<transports::Transport>(new Silent(std::move(*inner), silent));
  });
  fabric.build({-1}, 2);
  Gate joined(2);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto request = fabric.request(member);
    request.fragment_timeout = 400ms;
    auto group = provider.join(request);
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    joined.arrive();
    joined.wait();
    silent = true;
    std::vector<float> values(100, 1);
    (*group)->post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, 100, values.data(), values.data()), 1);
    const auto start = std::chrono::steady_clock::now();
    const auto completion = await(**group);
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_FALSE(completion.status.ok());
    EXPECT_THAT(completion.status.message(), AnyOf(HasSubstr("no result of fragment 1 from aggregator switch0"),
                                                   HasSubstr("no result of fragment 1")));
    EXPECT_GE(took, 300ms);
    EXPECT_LT(took, 5s);
    EXPECT_EQ(values, std::vector<float>(100, 1));
  });
}

TEST(Faults, BrokenDataPathFailsTheJoin) {
  std::atomic<bool> silent{true};
  Fabric fabric(small());
  fabric.replace_factory(0, [&](std::uint64_t token) -> Result<std::unique_ptr<transports::Transport>> {
    auto inner = fabric.factory()(token);
    if (!inner.ok()) return inner.status();
    return std::unique_ptr<transports::Transport>(new Silent(std::move(*inner), silent));
  });
  fabric.build({-1}, 2);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    auto request = fabric.request(member);
    request.timeout = 1000ms;
    const auto group = provider.join(request);
    ASSERT_FALSE(group.ok());
    EXPECT_THAT(group.status().message(), HasSubstr("switch0"));
  });
}

TEST(Faults, CancelEndsCallsAndLeavesBuffersAlone) {
  Fabric fabric(small());
  fabric.build({-1}, 2);
  Gate cancelled(1);
  fabric.run_joined([&](std::int32_t member, OffloadGroup& group) {
    std::vector<float> values(5000, 1);
    if (member == 0) {
      group.post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, 5000, values.data(), values.data()), 1);
      group.cancel(kGroupBit | 1);
      const auto completion = await(group, 1s);
      EXPECT_EQ(completion.status.code(), Code::kAborted) << completion.status.to_string();
      cancelled.arrive();
      std::this_thread::sleep_for(100ms);
      Completion none;
      EXPECT_EQ(group.poll({&none, 1}), 0u);
      EXPECT_EQ(values, std::vector<float>(5000, 1));
      return;
    }
    cancelled.wait();
    group.post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, 5000, values.data(), values.data()), 1);
    EXPECT_FALSE(await(group).status.ok());
    // Member 0's first window had gone up already: each fragment is whole, its input or its result.
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(values[i] == 1 || values[i] == 2);
      ASSERT_EQ(values[i], values[i / 256 * 256]) << "half a fragment at " << i;
    }
  });
}

TEST(Faults, StrangersAndGarbageAreCountedAndHarmless) {
  Fabric fabric(small());
  fabric.build({-1}, 1);
  const auto connect = [&] {
    return bootstrap::Channel::connect("127.0.0.1", fabric.daemon(0).port(),
                                       {.key = "", .service = std::string(kService)}, Deadline::after(5s));
  };
  for (const std::string& bytes :
       {std::string("garbage"), std::string(), encode(Renew{kGroupBit}), std::string(5000, '\1')}) {
    auto channel = connect();
    ASSERT_TRUE(channel.ok()) << channel.status().to_string();
    ASSERT_TRUE((*channel)->send(bytes).ok());
    const auto answer = (*channel)->receive(Deadline::after(5s));
    ASSERT_TRUE(answer.ok()) << answer.status().to_string();
    const auto frame = decode(*answer);
    ASSERT_TRUE(frame.ok());
    EXPECT_TRUE(std::holds_alternative<Error>(*frame));
  }
  EXPECT_TRUE(fabric.daemon(0).eventually([](const auto& s) {
    const auto found = s.rejects.find("malformed");
    return found != s.rejects.end() && found->second == 4;
  }));
  fabric.run_joined([&](std::int32_t, OffloadGroup& group) {
    group.post(barrier(), 1);
    EXPECT_TRUE(await(group).status.ok());
  });
}

}  // namespace
}  // namespace foldcast::offload
