// Ops and formats through the whole host path: pre-multiplied sums, functions of the application, bool, wire formats.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/api/premul.h"
#include "kernels/user_op.h"
#include "tests/core/api/job.h"

namespace foldcast {
namespace {

using api::CollectiveCall;
using api::Communicator;
using testing::Job;
using testing::uniform_nodes;

const std::map<std::string, std::string> kQuick = {{"FOLDCAST_LINK_LATENCY_US", "20"}, {"FOLDCAST_LINK_GBPS", "10"}};

template <typename T>
CollectiveCall all_reduce(const T* send, T* recv, std::uint64_t count, Datatype dtype, ReduceOp op) {
  CollectiveCall call;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  return call;
}

/// 2x2 matrices of uint32 side by side: their product is associative, but does not commute.
void multiply_matrices(const void* left, void* right, std::size_t count, Datatype, void*) {
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    std::uint32_t a[4], b[4];
    std::memcpy(a, static_cast<const std::uint32_t*>(left) + i, sizeof a);
    std::memcpy(b, static_cast<std::uint32_t*>(right) + i, sizeof b);
    const std::uint32_t product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                                      a[2] * b[1] + a[3] * b[3]};
    std::memcpy(static_cast<std::uint32_t*>(right) + i, product, sizeof product);
  }
}

TEST(Ops, AFunctionThatDoesNotCommuteIsAppliedInRankOrder) {
  const auto op = kernels::register_user_op({&multiply_matrices, nullptr, false});
  ASSERT_TRUE(op.ok());
  for (const auto& nodes :
       {uniform_nodes(1, 3), uniform_nodes(5, 1), uniform_nodes(2, 2), std::vector<int>{0, 1, 0, 1}}) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      const auto matrix = [](int r) { return std::array<std::uint32_t, 4>{1u + r, 2u * r + 1, 3, 5u + r}; };
      auto expected = matrix(comm.size() - 1);
      for (int r = comm.size() - 2; r >= 0; --r) {
        const auto left = matrix(r);
        multiply_matrices(left.data(), expected.data(), 4, Datatype::kUint32, nullptr);
      }
      const auto mine = matrix(rank);
      std::array<std::uint32_t, 4> result{};
      const Status status = comm.run(all_reduce(mine.data(), result.data(), 4, Datatype::kUint32, *op));
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(result, expected);
      CollectiveCall reduce = all_reduce(mine.data(), result.data(), 4, Datatype::kUint32, *op);
      reduce.kind = Collective::kReduce;
      reduce.root = comm.size() - 1;
      result = {};
      ASSERT_TRUE(comm.run(reduce).ok());
      if (rank == reduce.root) {
        EXPECT_EQ(result, expected);
      }
    });
  }
  EXPECT_TRUE(kernels::unregister_user_op(*op).ok());
}

TEST(Ops, PreMultipliedSums) {
  Job job{uniform_nodes(3, 2), kQuick};
  job.run([&](Communicator& comm, int rank) {
    api::Multiplier multiplier;
    multiplier.dtype = Datatype::kFloat32;
    const float scalar = 0.5f * static_cast<float>(rank + 1);
    std::memcpy(multiplier.value.data(), &scalar, sizeof scalar);
    const auto op = api::add_multiplier(multiplier);
    ASSERT_TRUE(op.ok());
    std::vector<float> values(1000, 2.0f);
    const std::vector<float> before = values;
    std::vector<float> result(values.size());
    ASSERT_TRUE(comm.run(all_reduce(values.data(), result.data(), values.size(), Datatype::kFloat32, *op)).ok());
    EXPECT_EQ(values, before);
    EXPECT_EQ(result, std::vector<float>(1000, 21.0f));
    const Status other = comm.run(all_reduce(values.data(), result.data(), 10, Datatype::kFloat64, *op));
    EXPECT_EQ(other.code(), Code::kInvalidArgument) << other.to_string();
    EXPECT_TRUE(api::remove_multiplier(*op).ok());
  });
}

TEST(Ops, BoolAndBits) {
  Job job{uniform_nodes(3, 1), kQuick};
  job.run([&](Communicator& comm, int rank) {
    const std::uint8_t flag = rank == 1 ? 7 : 0;
    std::uint8_t result = 99;
    ASSERT_TRUE(comm.run(all_reduce(&flag, &result, 1, Datatype::kBool, ReduceOp::kLor)).ok());
    EXPECT_EQ(result, 1);
    ASSERT_TRUE(comm.run(all_reduce(&flag, &result, 1, Datatype::kBool, ReduceOp::kProd)).ok());
    EXPECT_EQ(result, 0);
    const std::uint32_t bits = 1u << rank;
    std::uint32_t all = 0;
    ASSERT_TRUE(comm.run(all_reduce(&bits, &all, 1, Datatype::kUint32, ReduceOp::kBxor)).ok());
    EXPECT_EQ(all, 7u);
    EXPECT_EQ(comm.run(all_reduce(&flag, &result, 1, Datatype::kBool, ReduceOp::kAvg)).code(), Code::kUnsupported);
    float x = 1;
    EXPECT_EQ(comm.run(all_reduce(&x, &x, 1, Datatype::kFloat32, ReduceOp::kBor)).code(), Code::kUnsupported);
  });
}

TEST(WireFormats, HalveBytesWithinTheirBoundsAndLeaveTheSameBitsEverywhere) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  for (const auto& nodes : {uniform_nodes(2, 1), uniform_nodes(3, 1), uniform_nodes(5, 1), uniform_nodes(8, 1),
                            uniform_nodes(2, 2), uniform_nodes(3, 2)}) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      const int n = comm.size();
      constexpr std::size_t kCount = 10007;
      const auto contribution = [&](int r) {
        std::mt19937 random(seed + static_cast<unsigned>(r));
        std::vector<float> values(kCount);
        for (float& v : values) v = std::normal_distribution<float>()(random);
        return values;
      };
      std::vector<double> exact(kCount, 0), magnitude(kCount, 0);
      for (int r = 0; r < n; ++r) {
        const auto values = contribution(r);
        for (std::size_t i = 0; i < kCount; ++i) exact[i] += values[i], magnitude[i] += std::abs(values[i]);
      }
      const auto mine = contribution(rank);
      for (WireFormat format : {WireFormat::kBfloat16, WireFormat::kFloat16, WireFormat::kFloat8}) {
        for (const auto& composition : hierarchy::compositions_of(comm.layout(), Collective::kAllReduce)) {
          if (composition.offloaded()) continue;
          const std::string plan = hierarchy::name_of(comm.layout(), composition);
          SCOPED_TRACE(::testing::Message() << to_string(format) << ", " << plan << ", " << n << " ranks");
          comm.set_wire_format(format);
          ASSERT_TRUE(comm.selector().force({plan, {16 << 10, 2}}).ok());
          std::vector<float> result(kCount);
          const Status status =
              comm.run(all_reduce(mine.data(), result.data(), kCount, Datatype::kFloat32, ReduceOp::kSum));
          ASSERT_TRUE(status.ok()) << status.to_string();
          // A partial sum is rounded once a hop, n + 1 hops at most; each by a part of a block's largest value.
          const double unit = format == WireFormat::kFloat16    ? 0x1p-11
                              : format == WireFormat::kBfloat16 ? 0x1p-8
                                                                : 0x1p-4;
          for (std::size_t i = 0; i < kCount; ++i) {
            const double bound =
                (n + 1) * unit * (magnitude[i] + (format == WireFormat::kFloat8 ? 4.0 * n * 0x1p-4 : 0));
            ASSERT_LE(std::abs(result[i] - exact[i]), bound) << i;
          }
          comm.set_wire_format(WireFormat::kExact);
          ASSERT_TRUE(comm.selector().force({}).ok());
          std::vector<std::byte> all(static_cast<std::size_t>(n) * kCount * sizeof(float));
          CollectiveCall gather;
          gather.kind = Collective::kAllGather;
          gather.send = result.data();
          gather.recv = all.data();
          gather.count = kCount * sizeof(float);
          ASSERT_TRUE(comm.run(gather).ok());
          for (int r = 0; r < n; ++r) {
            ASSERT_EQ(std::memcmp(all.data() + r * gather.count, result.data(), gather.count), 0)
                << "rank " << r << " has other bits than rank " << rank;
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace foldcast
