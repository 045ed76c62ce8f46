#include "kernels/user_op.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/reducer.h"
#include "tests/kernels/data.h"

namespace foldcast::kernels::test {
namespace {

/// Neither commutative nor trivial: composition of the affine maps x -> ax + b over 16-bit integers, packed in 32 bits.
std::uint32_t composed(std::uint32_t left, std::uint32_t right) {
  const std::uint32_t a = (left >> 16) * (right >> 16);
  const std::uint32_t b = (left & 0xFFFF) * (right >> 16) + (right & 0xFFFF);
  return (a << 16) | (b & 0xFFFF);
}

struct Calls {
  std::atomic<int> count{0};
  std::atomic<bool> misaligned{false};
};

void compose(const void* left, void* right, std::size_t count, Datatype dtype, void* context) {
  auto* const calls = static_cast<Calls*>(context);
  ++calls->count;
  if (dtype != Datatype::kUint32) return;
  for (const void* pointer : {left, static_cast<const void*>(right)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 4 != 0) calls->misaligned = true;
  }
  const auto* const a = static_cast<const std::uint32_t*>(left);
  auto* const b = static_cast<std::uint32_t*>(right);
  for (std::size_t i = 0; i < count; ++i) b[i] = composed(a[i], b[i]);
}

class UserOpTest : public testing::Test {
 protected:
  UserOpTest() : op_(register_user_op({.function = compose, .context = &calls_}).value()) {}
  ~UserOpTest() override { EXPECT_TRUE(unregister_user_op(op_).ok()); }

  Calls calls_;
  ReduceOp op_;
};

TEST_F(UserOpTest, KeepsTheOrderOfOperandsInEveryLayout) {
  std::mt19937_64 random = fresh_generator();
  for (const std::size_t count : {0, 1, 2, 7, 1023, 1024, 1025, 4099, 100'003}) {
    for (const std::size_t input_count : {1, 2, 3, 5, 8}) {
      std::vector<std::vector<std::uint32_t>> inputs(input_count, std::vector<std::uint32_t>(count));
      for (auto& input : inputs) {
        for (auto& value : input) value = static_cast<std::uint32_t>(random());
      }
      std::vector<std::uint32_t> expected = inputs[0];
      for (std::size_t k = 1; k < input_count; ++k) {
        for (std::size_t i = 0; i < count; ++i) expected[i] = composed(expected[i], inputs[k][i]);
      }
      // Each input in turn is the target, then none of them; at aligned and odd addresses.
      for (std::size_t aliased = 0; aliased <= input_count; ++aliased) {
        for (const std::size_t shift : {0, 1}) {
          std::vector<Bytes> operands(input_count + 1, Bytes(count * 4 + shift + 8, std::byte{0xA5}));
          std::vector<const std::byte*> pointers;
          for (std::size_t k = 0; k < input_count; ++k) {
            if (count != 0) std::memcpy(operands[k].data() + shift, inputs[k].data(), count * 4);
            pointers.push_back(operands[k].data() + shift);
          }
          Bytes& target = operands[aliased];
          reduce_n(op_, Datatype::kUint32, target.data() + shift, pointers, count);
          ASSERT_TRUE(count == 0 || std::memcmp(target.data() + shift, expected.data(), count * 4) == 0)
              << input_count << " x " << count << ", target " << aliased << ", shift " << shift;
          ASSERT_EQ(target[shift + count * 4], std::byte{0xA5});
        }
      }
    }
  }
  EXPECT_FALSE(calls_.misaligned);
}

TEST_F(UserOpTest, ReduceOfTwoMayWriteEitherOperand) {
  std::vector<std::uint32_t> a = {0x0002'0003, 0x0005'0007};
  std::vector<std::uint32_t> b = {0x000B'000D, 0x0011'0013};
  const std::vector<std::uint32_t> expected = {composed(a[0], b[0]), composed(a[1], b[1])};
  auto in_a = a;
  reduce(op_, Datatype::kUint32, reinterpret_cast<std::byte*>(in_a.data()),
         reinterpret_cast<const std::byte*>(in_a.data()), reinterpret_cast<const std::byte*>(b.data()), 2);
  EXPECT_EQ(in_a, expected);
  auto in_b = b;
  reduce(op_, Datatype::kUint32, reinterpret_cast<std::byte*>(in_b.data()),
         reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(in_b.data()), 2);
  EXPECT_EQ(in_b, expected);
  EXPECT_NE(composed(a[0], b[0]), composed(b[0], a[0]));
}

TEST(UserOps, TheLowestFreeNumberComesFirst) {
  const UserOp op{.function = compose, .commutative = true};
  const ReduceOp first = register_user_op(op).value();
  const ReduceOp second = register_user_op(op).value();
  EXPECT_EQ(first, ReduceOp::kFirstUser);
  EXPECT_EQ(static_cast<int>(second), static_cast<int>(first) + 1);
  EXPECT_TRUE(unregister_user_op(first).ok());
  EXPECT_EQ(find_user_op(first), nullptr);
  ASSERT_NE(find_user_op(second), nullptr);
  EXPECT_TRUE(find_user_op(second)->commutative);
  EXPECT_EQ(register_user_op(op).value(), first);
  EXPECT_TRUE(unregister_user_op(first).ok());
  EXPECT_TRUE(unregister_user_op(second).ok());
}

TEST(UserOps, RefusesWhatItCannotDo) {
  EXPECT_EQ(register_user_op({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(unregister_user_op(ReduceOp::kSum).code(), Code::kInvalidArgument);
  EXPECT_EQ(unregister_user_op(static_cast<ReduceOp>(64 + kMaxUserOps - 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(find_user_op(ReduceOp::kSum), nullptr);
  std::vector<ReduceOp> all;
  for (std::size_t i = 0; i < kMaxUserOps; ++i) all.push_back(register_user_op({.function = compose}).value());
  EXPECT_TRUE(is_user(all.back()));
  EXPECT_EQ(register_user_op({.function = compose}).status().code(), Code::kResourceExhausted);
  for (const ReduceOp op : all) EXPECT_TRUE(unregister_user_op(op).ok());
  EXPECT_EQ(unregister_user_op(all.front()).code(), Code::kInvalidArgument);
}

TEST(UserOps, ThreadsRegisterLookUpAndFreeAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong] {
      int own = 0;
      for (int i = 0; i < 2000; ++i) {
        const ReduceOp op = register_user_op({.function = compose, .context = &own}).value();
        const UserOp* const found = find_user_op(op);
        if (found == nullptr || found->context != &own || found->function != compose) ++wrong;
        if (!unregister_user_op(op).ok()) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace foldcast::kernels::test
