// The whole host path in one process: store, planner, selector, executor, shared memory and transport.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>

#include "tests/core/api/job.h"

namespace foldcast {
namespace {

using api::CollectiveCall;
using api::Communicator;
using testing::Job;
using testing::uniform_nodes;

/// Calibration runs once a job; the numbers do not matter to these tests.
const std::map<std::string, std::string> kQuick = {{"FOLDCAST_LINK_LATENCY_US", "20"}, {"FOLDCAST_LINK_GBPS", "10"}};

/// Asleep at once, or after polling: otherwise this machine's cores would decide which is tested.
std::map<std::string, std::string> waiting(const char* spin_us) {
  auto settings = kQuick;
  settings["FOLDCAST_SPIN_US"] = spin_us;
  return settings;
}

Status all_reduce(Communicator& world, const void* send, void* recv, std::uint64_t count, Datatype dtype, ReduceOp op) {
  return world.run({Collective::kAllReduce, send, recv, count, dtype, op});
}

/// What rank `rank` contributes at `i`: differs by rank and place, small enough that float sums are exact.
std::int32_t value(int rank, std::uint64_t i) { return static_cast<std::int32_t>((i * 7 + rank * 13) % 101) - 50; }

void check_int32(Communicator& world, int rank, std::uint64_t count, bool in_place) {
  const int size = world.size();
  std::vector<std::int32_t> send(count + 1), recv(count + 1, -7);
  for (std::uint64_t i = 0; i < count; ++i) send[i] = value(rank, i);
  if (in_place) std::copy(send.begin(), send.begin() + count, recv.begin());
  recv[count] = 424242;
  Status status =
      all_reduce(world, in_place ? recv.data() : send.data(), recv.data(), count, Datatype::kInt32, ReduceOp::kSum);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int32_t expected = 0;
    for (int r = 0; r < size; ++r) expected += value(r, i);
    ASSERT_EQ(recv[i], expected) << "rank " << rank << " count " << count << " at " << i;
  }
  EXPECT_EQ(recv[count], 424242);
}

TEST(Communicator, EveryPlanEverySizeInAndOutOfPlace) {
  const std::vector<std::vector<int>> layouts = {uniform_nodes(1, 1), uniform_nodes(1, 3), uniform_nodes(2, 1),
                                                 uniform_nodes(3, 1), uniform_nodes(5, 1), uniform_nodes(4, 2),
                                                 {0, 0, 0, 1, 1, 2}};
  for (const char* spin_us : {"0", "20"})
    for (const auto& nodes : layouts) {
      Job job{nodes, waiting(spin_us)};
      job.run([&](Communicator& world, int rank) {
        std::vector<std::string> plans{""};
        if (world.layout().nodes.size() > 1) {
          for (const char* plan : {"ring", "recursive_doubling", "halving_doubling", "double_tree"})
            plans.push_back(plan);
        }
        const std::uint64_t n = nodes.size();
        for (const auto& plan : plans) {
          ASSERT_TRUE(world.selector().force({plan, {0, 0}}).ok());
          for (std::uint64_t count :
               {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, std::uint64_t{1009}, std::uint64_t{70001}}) {
            check_int32(world, rank, count, false);
            check_int32(world, rank, count, true);
          }
        }
      });
    }
}

TEST(Communicator, FragmentsInAPipeline) {
  for (const auto& nodes : {uniform_nodes(3, 1), uniform_nodes(2, 2)}) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& world, int rank) {
      for (std::uint32_t depth : {1u, 2u, 5u}) {
        ASSERT_TRUE(world.selector().force({"", {1000, depth}}).ok());
        check_int32(world, rank, 10007, depth == 2);
      }
    });
  }
}

TEST(Communicator, EveryTypeAndOpAgainstFloat64) {
  Job job{uniform_nodes(3, 2), kQuick};
  job.run([&](Communicator& world, int rank) {
    const int n = world.size();
    constexpr std::uint64_t kCount = 333;
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg}) {
      const auto input = [&](int r, std::uint64_t i) { return static_cast<double>((i + r) % 3 + 1); };
      const auto expected = [&](std::uint64_t i) {
        double result = input(0, i);
        for (int r = 1; r < n; ++r) {
          const double v = input(r, i);
          switch (op) {
            case ReduceOp::kProd:
              result *= v;
              break;
            case ReduceOp::kMin:
              result = std::min(result, v);
              break;
            case ReduceOp::kMax:
              result = std::max(result, v);
              break;
            default:
              result += v;
          }
        }
        return op == ReduceOp::kAvg ? result / n : result;
      };
      std::vector<double> f64(kCount), f64_out(kCount);
      std::vector<std::uint8_t> u8(kCount), u8_out(kCount);
      for (std::uint64_t i = 0; i < kCount; ++i) {
        f64[i] = input(rank, i);
        u8[i] = static_cast<std::uint8_t>(input(rank, i));
      }
      ASSERT_TRUE(all_reduce(world, f64.data(), f64_out.data(), kCount, Datatype::kFloat64, op).ok());
      ASSERT_TRUE(all_reduce(world, u8.data(), u8_out.data(), kCount, Datatype::kUint8, op).ok());
      for (std::uint64_t i = 0; i < kCount; ++i) {
        ASSERT_DOUBLE_EQ(f64_out[i], expected(i)) << to_string(op);
        if (expected(i) < 256) {
          ASSERT_EQ(u8_out[i], static_cast<std::uint8_t>(expected(i))) << to_string(op);
        }
      }
    }
  });
}

TEST(Communicator, SeveralCallsOutstandingCompleteInAnyOrder) {
  for (const auto& nodes : {uniform_nodes(3, 1), uniform_nodes(2, 2), uniform_nodes(1, 3)}) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& world, int rank) {
      constexpr int kCalls = 20;
      std::vector<std::vector<std::int64_t>> buffers(kCalls);
      std::vector<api::Operation> operations(kCalls);
      for (int c = 0; c < kCalls; ++c) {
        buffers[c].assign(1 + c * 997, rank + c);
        const CollectiveCall call{Collective::kAllReduce, buffers[c].data(), buffers[c].data(),
                                  buffers[c].size(),      Datatype::kInt64,  ReduceOp::kSum};
        ASSERT_TRUE(world.start(call, operations[c]).ok());
      }
      std::vector<int> order(kCalls);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(rank));
      const std::int64_t n = world.size();
      for (int c : order) {
        if (c % 3 == 0) {
          while (!world.test(operations[c])) std::this_thread::yield();
        }
        ASSERT_TRUE(world.finish(operations[c]).ok());
        for (std::int64_t v : buffers[c]) ASSERT_EQ(v, n * (n - 1) / 2 + n * c);
      }
    });
  }
}

TEST(Communicator, MismatchIsReportedNotRun) {
  for (const char* plan : {"ring", "recursive_doubling"}) {
    Job job{uniform_nodes(2, 1), kQuick};
    std::atomic<int> reported = 0;
    job.run([&](Communicator& world, int rank) {
      ASSERT_TRUE(world.selector().force({plan, {0, 0}}).ok());
      std::vector<float> buffer(100, 1.0f);
      const Status status =
          all_reduce(world, buffer.data(), buffer.data(), rank == 0 ? 100 : 98, Datatype::kFloat32, ReduceOp::kSum);
      ASSERT_FALSE(status.ok());
      // The first to see it says so; the other may see the consequence.
      if (status.code() == Code::kMismatch) ++reported;
      const Status later = all_reduce(world, buffer.data(), buffer.data(), 1, Datatype::kFloat32, ReduceOp::kSum);
      EXPECT_EQ(later.code(), Code::kAborted) << later.to_string();
    });
    EXPECT_GE(reported, 1);
  }
}

TEST(Communicator, ARankThatNeverCallsIsATimeOutThatNamesIt) {
  auto settings = kQuick;
  settings["FOLDCAST_TIMEOUT"] = "300ms";
  Job job{uniform_nodes(2, 1), settings};
  std::atomic<bool> reported = false;
  job.run([&](Communicator& world, int rank) {
    if (rank == 0) {
      float x = 1;
      const Status status = all_reduce(world, &x, &x, 1, Datatype::kFloat32, ReduceOp::kSum);
      EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
      EXPECT_NE(status.message().find("rank 1 (node1)"), std::string::npos) << status.message();
      reported = true;
    } else {
      while (!reported) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

TEST(Communicator, CallsThatNeverMeetAreComparedOverTheControlPlane) {
  for (bool differ : {true, false}) {
    auto settings = kQuick;
    settings["FOLDCAST_TIMEOUT"] = "300ms";
    Job job{uniform_nodes(3, 1), settings};
    job.deaf = true;
    job.run([&](Communicator& world, int rank) {
      std::vector<float> buffer(100, 1.0f);
      const Status status = all_reduce(world, buffer.data(), buffer.data(), differ && rank == 2 ? 98 : 100,
                                       Datatype::kFloat32, ReduceOp::kSum);
      if (!differ) {
        EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
        return;
      }
      EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
      for (const char* words : {"rank 2 (node2)", "100 float32", "98 float32"}) {
        EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
      }
    });
  }
}

TEST(Communicator, SettingsThatDecideThePlanMustBeEqual) {
  Job job{uniform_nodes(3, 1), kQuick};
  job.of_rank[1]["FOLDCAST_PLAN"] = "ring";
  job.attempt([&](Result<std::unique_ptr<Communicator>> world, int) {
    ASSERT_FALSE(world.ok());
    EXPECT_EQ(world.status().code(), Code::kMismatch);
    for (const char* words : {"FOLDCAST_PLAN", "rank 1 (node1)", "\"ring\""}) {
      EXPECT_NE(world.status().message().find(words), std::string::npos) << world.status().message();
    }
  });
}

TEST(Communicator, ArgumentsAreChecked) {
  float a[4] = {};
  const auto code = [](const CollectiveCall& call) { return api::Operation().prepare(call, 0, 2).code(); };
  EXPECT_EQ(code({Collective::kAllReduce, nullptr, a, 1, Datatype::kFloat32, ReduceOp::kSum}), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllReduce, a, nullptr, 1, Datatype::kFloat32, ReduceOp::kSum}), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllReduce, a, a + 1, 2, Datatype::kFloat32, ReduceOp::kSum}), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllReduce, a, a + 2, 2, Datatype::kFloat32, ReduceOp::kSum}), Code::kOk);
  EXPECT_EQ(code({Collective::kAllReduce, a, a, 4, Datatype::kFloat32, ReduceOp::kSum}), Code::kOk);
  EXPECT_EQ(code({Collective::kAllReduce, a, a, 4, static_cast<Datatype>(99), ReduceOp::kSum}), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllReduce, a, a, 4, Datatype::kFloat32, static_cast<ReduceOp>(17)}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllReduce, a, a, std::uint64_t{1} << 62, Datatype::kFloat32, ReduceOp::kSum}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllReduce, nullptr, nullptr, 0, Datatype::kFloat32, ReduceOp::kSum}), Code::kOk);
  EXPECT_EQ(code({Collective::kAllReduce, a, a, UINT64_MAX / 2, Datatype::kFloat32, ReduceOp::kSum}),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace foldcast
