#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <numeric>
#include <random>

#include "fixture.h"
#include "kernels/reducer.h"
#include "offload/protocol/control.h"

namespace foldcast::offload {
namespace {

using ::testing::HasSubstr;

DaemonOptions small() {
  DaemonOptions options;
  options.window = 4;
  options.fragment = 1024;
  return options;
}

/// Whole numbers small enough that every type and every order of summation is exact.
template <typename T>
std::vector<T> numbers(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (auto& value : values) value = static_cast<T>(random() % 8);
  return values;
}

template <typename T>
std::vector<T> sum_of(const std::vector<std::vector<T>>& inputs) {
  std::vector<T> sum(inputs[0].size());
  for (const auto& input : inputs) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<T>(sum[i] + input[i]);
  }
  return sum;
}

using Shape = std::tuple<std::vector<std::int32_t>, std::size_t>;

class Trees : public ::testing::TestWithParam<Shape> {};

/// Every count in and out of place, in one group after the other call.
TEST_P(Trees, SumsAreExactForEveryCount) {
  const auto& [parents, members] = GetParam();
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Fabric fabric(small());
  fabric.build(parents, members);
  const std::size_t counts[] = {0, 1, 2, 255, 256, 257, 1021, 1024, 7919, 40'000};
  fabric.run_joined([&](std::int32_t member, OffloadGroup& group) {
    std::uint64_t sequence = 0;
    for (const std::size_t count : counts) {
      std::vector<std::vector<float>> inputs;
      for (std::size_t m = 0; m < members; ++m) inputs.push_back(numbers<float>(seed + m, count));
      const auto expected = sum_of(inputs);
      for (const bool in_place : {false, true}) {
        auto& input = inputs[member];
        std::vector<float> output(count, -1);
        float* target = in_place ? input.data() : output.data();
        auto call = all_reduce(Datatype::kFloat32, ReduceOp::kSum, count, input.data(), target);
        call.key.sequence = ++sequence;
        ASSERT_EQ(group.post(call, sequence), Posted::kAccepted);
        const auto completion = await(group);
        ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
        EXPECT_EQ(completion.cookie, sequence);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), target)) << count << " elements";
      }
    }
    EXPECT_EQ(group.caps().depth, fabric.tree().depth());
    EXPECT_EQ(group.caps().slots, 4u);
  });
  for (std::size_t v = 0; v < parents.size(); ++v) {
    EXPECT_TRUE(fabric.daemon(v).eventually([](const auto& stats) { return stats.groups == 0 && stats.memory == 0; }));
    fabric.daemon(v).stop(true);
    const auto& vertex = fabric.tree().vertices[v];
    const std::uint64_t buffers = slot_buffers(vertex.members.size() + vertex.children.size(), vertex.parent < 0);
    EXPECT_LE(fabric.daemon(v).stats().peak_memory, group_memory(4, 1024, buffers));
    EXPECT_EQ(fabric.daemon(v).stats().groups_failed, 0u);
    EXPECT_EQ(fabric.daemon(v).stats().groups_granted, 1u);
  }
}

const std::vector<std::int32_t> kOne{-1}, kPair{-1, 0}, kTwoLeaves{-1, 0, 0}, kChain{-1, 0, 1};

INSTANTIATE_TEST_SUITE_P(Shapes, Trees,
                         ::testing::Values(Shape{kOne, 1}, Shape{kOne, 2}, Shape{kOne, 3}, Shape{kOne, 5},
                                           Shape{kOne, 8}, Shape{kPair, 2}, Shape{kPair, 3}, Shape{kTwoLeaves, 2},
                                           Shape{kTwoLeaves, 3}, Shape{kTwoLeaves, 5}, Shape{kTwoLeaves, 8},
                                           Shape{kChain, 3}));

TEST(Group, MembersOnEveryLevel) {
  Fabric fabric(small());
  fabric.build(kTwoLeaves, 5, true);
  fabric.run_joined([](std::int32_t member, OffloadGroup& group) {
    std::vector<std::int64_t> values(3000, member + 1);
    group.post(all_reduce(Datatype::kInt64, ReduceOp::kSum, 3000, values.data(), values.data()), 1);
    ASSERT_TRUE(await(group).status.ok());
    EXPECT_EQ(values, std::vector<std::int64_t>(3000, 15));
  });
}

/// Three members, each type and operation, against the same kernels applied in the tree's order.
TEST(Group, EveryTypeAndOperation) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Fabric fabric(small());
  fabric.build(kOne, 3);
  fabric.run_joined([&](std::int32_t member, OffloadGroup& group) {
    for (std::size_t d = 0; d < kDatatypeCount; ++d) {
      for (std::size_t o = 0; o < kReduceOpCount; ++o) {
        const auto dtype = static_cast<Datatype>(d);
        const auto op = static_cast<ReduceOp>(o);
        if (!is_defined(dtype, op)) continue;
        const std::size_t count = 777, bytes = count * size_of(dtype);
        std::vector<std::vector<std::byte>> inputs(3, std::vector<std::byte>(bytes));
        std::mt19937_64 random(seed + d);
        for (auto& input : inputs) {
          for (auto& byte : input) byte = static_cast<std::byte>(random());
        }
        const std::byte* pointers[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
        std::vector<std::byte> expected(bytes), output(bytes);
        kernels::reduce_n(op, dtype, expected.data(), pointers, count);
        group.post(all_reduce(dtype, op, count, inputs[member].data(), output.data()), 1);
        const auto completion = await(group);
        ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
        EXPECT_TRUE(output == expected) << to_string(dtype) << " " << to_string(op);
      }
    }
  });
}

TEST(Group, ManyOutstandingCallsEndInOrder) {
  Fabric fabric(small());
  fabric.build(kTwoLeaves, 4);
  fabric.run_joined([](std::int32_t member, OffloadGroup& group) {
    constexpr std::size_t kCalls = 400;
    std::vector<std::vector<std::int32_t>> buffers(kCalls);
    std::size_t posted = 0, finished = 0;
    while (finished < kCalls) {
      for (; posted < kCalls; ++posted) {
        buffers[posted].assign(1 + posted * 37 % 900, member);
        auto& buffer = buffers[posted];
        auto call = all_reduce(Datatype::kInt32, ReduceOp::kSum, buffer.size(), buffer.data(), buffer.data());
        call.key.sequence = posted;
        if (group.post(call, posted) == Posted::kRetry) break;
      }
      const auto completion = await(group);
      ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
      ASSERT_EQ(completion.cookie, finished);
      EXPECT_EQ(buffers[finished], std::vector<std::int32_t>(buffers[finished].size(), 6));
      ++finished;
    }
  });
}

/// Four groups of one provider on one transport, used in turns and at once, and joined by all in the same order.
TEST(Group, SeveralGroupsAtOnce) {
  Fabric fabric(small());
  fabric.build(kTwoLeaves, 3);
  fabric.run([&](std::int32_t member, OffloadProvider& provider) {
    std::vector<std::unique_ptr<OffloadGroup>> groups;
    for (std::uint32_t g = 0; g < 4; ++g) {
      auto group = provider.join(fabric.request(member, kGroupBit | (g + 1)));
      ASSERT_TRUE(group.ok()) << group.status().to_string();
      groups.push_back(std::move(*group));
    }
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<double>> buffers(4, std::vector<double>(500, member + round));
      for (std::size_t g = 0; g < 4; ++g) {
        groups[g]->post(all_reduce(Datatype::kFloat64, ReduceOp::kSum, 500, buffers[g].data(), buffers[g].data()), g);
      }
      // Waiting for the last first: the others' completions come with its polls and must not be lost.
      for (std::size_t g = 4; g-- > 0;) {
        const auto completion = await(*groups[g]);
        ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
        EXPECT_EQ(completion.cookie, g);
        EXPECT_EQ(buffers[g], std::vector<double>(500, 3 + 3 * round));
      }
    }
  });
}

TEST(Group, BarrierWaitsForAll) {
  Fabric fabric(small());
  fabric.build(kTwoLeaves, 3);
  std::atomic<int> arrived{0};
  fabric.run_joined([&](std::int32_t member, OffloadGroup& group) {
    for (int round = 1; round <= 10; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(member == round % 3 ? 20 : 0));
      ++arrived;
      group.post(barrier(), 5);
      ASSERT_TRUE(await(group).status.ok());
      EXPECT_GE(arrived.load(), 3 * round);
    }
  });
}

/// A descriptor that is readable with nothing to do makes its owner spin.
TEST(Group, SleepsWhenIdle) {
  Fabric fabric(small());
  fabric.build(kOne, 2);
  fabric.run_joined([&](std::int32_t, OffloadGroup& group) {
    group.post(barrier(), 1);
    ASSERT_TRUE(await(group).status.ok());
    int wakes = 0;
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(1500));
    while (!deadline.passed()) {
      Completion completion;
      EXPECT_EQ(group.poll({&completion, 1}), 0u);
      if (!group.arm()) continue;
      pollfd fd{group.descriptor(), POLLIN, 0};
      ::poll(&fd, 1, deadline.poll_timeout());
      ++wakes;
    }
    EXPECT_LE(wakes, 5);
  });
}

TEST(Group, LivesOnWhileItsOwnerComputes) {
  DaemonOptions options = small();
  options.lease = std::chrono::milliseconds(800);
  Fabric fabric(options);
  fabric.build(kPair, 2);
  fabric.run_joined([&](std::int32_t, OffloadGroup& group) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    group.post(barrier(), 1);
    const auto completion = await(group);
    EXPECT_TRUE(completion.status.ok()) << completion.status.to_string();
  });
}

TEST(Group, KeysMustAgree) {
  DaemonOptions options = small();
  options.key = "secret";
  Fabric fabric(options);
  fabric.build(kPair, 2);
  fabric.run_joined([&](std::int32_t, OffloadGroup& group) {
    group.post(barrier(), 1);
    EXPECT_TRUE(await(group).status.ok());
  });
  auto request = fabric.request(0);
  request.key = "guess";
  request.timeout = std::chrono::seconds(2);
  const auto refused = make_aggregator_provider(fabric.factory())->join(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("switch1"));
}

TEST(Group, RefusesWhatItCannotDo) {
  Fabric fabric(small());
  fabric.build(kOne, 1);
  fabric.run_joined([&](std::int32_t, OffloadGroup& group) {
    EngineCall call;
    call.verb = Verb::kBroadcast;
    group.post(call, 3);
    EXPECT_EQ(await(group).status.code(), Code::kUnsupported);
    group.post(all_reduce(Datatype::kInt32, ReduceOp::kSum, 4, nullptr, nullptr), 4);
    EXPECT_EQ(await(group).status.code(), Code::kInvalidArgument);
    std::int32_t value = 3;
    group.post(all_reduce(Datatype::kInt32, ReduceOp::kSum, 1, &value, &value), 5);
    EXPECT_TRUE(await(group).status.ok());
    EXPECT_THAT(group.describe(), HasSubstr("switch0, window 4 x 1 KiB"));
  });
}

}  // namespace
}  // namespace foldcast::offload
