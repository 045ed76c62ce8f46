#include "tests/kernels/every_target.h"
// Highway's targets come before any header of Highway.
#include <algorithm>
#include <memory>

#include "tests/kernels/data.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 1023, 4099};
constexpr std::size_t kInputCounts[] = {1, 2, 3, 4, 5, 8, 17};
constexpr std::size_t kGuard = 64;

/// An operand that starts `offset` bytes into its allocation. What lies before is guarded by a pattern, what lies after
/// by a pattern for a target, and by the end of the allocation for an input, where a sanitizer sees reads as well.
class Operand {
 public:
  Operand(const Bytes& values, std::size_t offset, std::size_t guard_after)
      : offset_(offset), size_(values.size()), memory_(offset + size_ + guard_after, kPattern) {
    std::copy(values.begin(), values.end(), memory_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  std::byte* data() { return memory_.data() + offset_; }
  Bytes values() const { return {memory_.begin() + static_cast<std::ptrdiff_t>(offset_), end_of_values()}; }
  bool guards_intact() const {
    const auto intact = [](std::byte b) { return b == kPattern; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(offset_), intact) &&
           std::all_of(end_of_values(), memory_.end(), intact);
  }

 private:
  static constexpr std::byte kPattern{0xA5};
  Bytes::const_iterator end_of_values() const { return memory_.begin() + static_cast<std::ptrdiff_t>(offset_ + size_); }

  std::size_t offset_;
  std::size_t size_;
  Bytes memory_;
};

constexpr std::size_t kNoAlias = static_cast<std::size_t>(-1);

struct Case {
  ReduceOp op;
  Datatype dtype;
  std::size_t count;
  std::size_t aliased;  ///< the input that is the target, or kNoAlias
  bool aligned;
  bool two_input_call;
};

std::string describe(const Case& c, std::size_t inputs) {
  return std::string(to_string(c.op)) + " of " + std::to_string(inputs) + " x " + std::to_string(c.count) + " " +
         std::string(to_string(c.dtype)) +
         (c.aliased == kNoAlias ? "" : ", in place of input " + std::to_string(c.aliased)) +
         (c.aligned ? ", aligned" : ", misaligned") + (c.two_input_call ? ", reduce" : ", reduce_n");
}

/// Runs one call and compares all of memory it could touch.
testing::AssertionResult run_case(const Case& c, const std::vector<Bytes>& inputs, const Bytes& expected,
                                  std::mt19937_64& random) {
  std::vector<Operand> operands;
  for (const Bytes& input : inputs) {
    const std::size_t guard = operands.size() == c.aliased ? kGuard : 0;
    operands.emplace_back(input, c.aligned ? kGuard : kGuard + random() % 64, guard);
  }
  Operand apart(Bytes(expected.size(), std::byte{0x5A}), c.aligned ? kGuard : kGuard + random() % 64, kGuard);
  Operand& target = c.aliased == kNoAlias ? apart : operands[c.aliased];

  if (c.two_input_call) {
    reduce(c.op, c.dtype, target.data(), operands[0].data(), operands[1].data(), c.count);
  } else {
    std::vector<const std::byte*> pointers;
    for (Operand& operand : operands) pointers.push_back(operand.data());
    reduce_n(c.op, c.dtype, target.data(), pointers, c.count);
  }

  const Bytes got = target.values();
  if (got != expected) {
    const auto at =
        static_cast<std::size_t>(std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin());
    return testing::AssertionFailure() << describe(c, inputs.size()) << ": element " << at / size_of(c.dtype);
  }
  if (!target.guards_intact()) {
    return testing::AssertionFailure() << describe(c, inputs.size()) << ": wrote beyond the target";
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (k == c.aliased) continue;
    if (operands[k].values() != inputs[k] || !operands[k].guards_intact()) {
      return testing::AssertionFailure() << describe(c, inputs.size()) << ": input " << k << " changed";
    }
  }
  return testing::AssertionSuccess();
}

class ReduceTest : public testing::TestWithParam<Datatype> {};

INSTANTIATE_TEST_SUITE_P(EveryDatatype, ReduceTest, every_datatype(), datatype_name);

void check_all_layouts(ReduceOp op, Datatype dtype, const std::vector<Bytes>& inputs, std::mt19937_64& random) {
  const Bytes expected = reference_fold(op, dtype, inputs);
  const std::size_t count = expected.size() / size_of(dtype);
  std::vector<std::size_t> aliases = {kNoAlias, 0, inputs.size() - 1, random() % inputs.size()};
  std::sort(aliases.begin(), aliases.end());
  aliases.erase(std::unique(aliases.begin(), aliases.end()), aliases.end());
  on_every_target([&] {
    for (const std::size_t aliased : aliases) {
      for (const bool aligned : {true, false}) {
        Case c{op, dtype, count, aliased, aligned, false};
        ASSERT_TRUE(run_case(c, inputs, expected, random));
        if (inputs.size() != 2) continue;
        c.two_input_call = true;
        ASSERT_TRUE(run_case(c, inputs, expected, random));
      }
    }
  });
}

TEST_P(ReduceTest, MatchesTheReferenceInEveryLayout) {
  std::mt19937_64 random = fresh_generator();
  for (std::size_t op = 0; op < kReduceOpCount; ++op) {
    if (!is_defined(GetParam(), static_cast<ReduceOp>(op))) continue;
    for (const std::size_t count : kCounts) {
      for (const std::size_t input_count : kInputCounts) {
        std::vector<Bytes> inputs;
        for (std::size_t k = 0; k < input_count; ++k) inputs.push_back(random_values(GetParam(), count, random));
        check_all_layouts(static_cast<ReduceOp>(op), GetParam(), inputs, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceTest, EveryTailLength) {
  // A run is at most four packs of 128 bytes: every count up to beyond two runs meets every way out of the loops.
  std::mt19937_64 random = fresh_generator();
  for (std::size_t count = 0; count <= 1100 / size_of(GetParam()) + 1; ++count) {
    const std::vector<Bytes> inputs = {random_values(GetParam(), count, random),
                                       random_values(GetParam(), count, random)};
    check_all_layouts(ReduceOp::kSum, GetParam(), inputs, random);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ReduceTest, OneBufferMayBeSeveralInputs) {
  std::mt19937_64 random = fresh_generator();
  const Bytes a = random_values(GetParam(), 77, random);
  const Bytes b = random_values(GetParam(), 77, random);
  const Bytes expected = reference_fold(ReduceOp::kSum, GetParam(), {a, a, b, a});
  on_every_target([&] {
    Bytes target = a;
    const std::byte* const inputs[] = {target.data(), target.data(), b.data(), target.data()};
    reduce_n(ReduceOp::kSum, GetParam(), target.data(), inputs, 77);
    EXPECT_EQ(target, expected);
  });
}

TEST_P(ReduceTest, OperandsInEitherOrderGiveTheSameBits) {
  std::mt19937_64 random = fresh_generator();
  const std::size_t size = size_of(GetParam());
  Bytes a(1021 * size);
  Bytes b(1021 * size);
  for (Bytes* bytes : {&a, &b}) std::ranges::generate(*bytes, [&] { return static_cast<std::byte>(random()); });
  if (is_floating(GetParam())) {
    // All exponent bits in a third of each, so that there are many pairs of NaNs with different payloads.
    const bool five_exponent_bits = GetParam() == Datatype::kFloat16 || GetParam() == Datatype::kFloat8E5m2;
    const unsigned high_bits = five_exponent_bits ? 0x7C : 0x7F;
    for (std::size_t i = 0; i < 1021; ++i) {
      for (Bytes* bytes : {&a, &b}) {
        if (random() % 3 != 0) continue;
        (*bytes)[i * size + size - 1] |= std::byte{static_cast<std::uint8_t>(high_bits)};
        if (high_bits == 0x7F && size > 1) (*bytes)[i * size + size - 2] |= std::byte{0xF0};
      }
    }
  }
  on_every_target([&] {
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      if (!is_defined(GetParam(), static_cast<ReduceOp>(op))) continue;
      Bytes forward(a.size());
      Bytes backward(a.size());
      reduce(static_cast<ReduceOp>(op), GetParam(), forward.data(), a.data(), b.data(), 1021);
      reduce(static_cast<ReduceOp>(op), GetParam(), backward.data(), b.data(), a.data(), 1021);
      EXPECT_EQ(forward, backward) << to_string(static_cast<ReduceOp>(op));
    }
  });
}

TEST(Targets, DispatchTakesTheBestAndTheFallbackIsTestedToo) {
  std::vector<std::string> seen;
  on_every_target([&] { seen.emplace_back(cpu_target()); });
  for (const std::string& target : seen) std::cout << "tested on " << target << std::endl;
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(cpu_target(), seen.front());
  EXPECT_EQ(seen.back(), hwy::TargetName(HWY_STATIC_TARGET));
}

TEST(ReduceDeathTest, BrokenCallsStopBeforeMemoryIsTouched) {
  std::byte byte{};
  const std::byte* const input = &byte;
  EXPECT_DEATH(reduce_n(ReduceOp::kSum, Datatype::kInt8, &byte, {}, 1), "at least one input");
  EXPECT_DEATH(reduce(static_cast<ReduceOp>(20), Datatype::kInt8, &byte, input, input, 1), "known operation");
  EXPECT_DEATH(reduce(ReduceOp::kBand, Datatype::kFloat32, &byte, input, input, 1), "defined for its datatype");
  EXPECT_DEATH(reduce(ReduceOp::kAvg, Datatype::kBool, &byte, input, input, 1), "defined for its datatype");
  EXPECT_DEATH(reduce(static_cast<ReduceOp>(64 + kMaxUserOps - 1), Datatype::kInt8, &byte, input, input, 1),
               "registered");
  EXPECT_DEATH(divide(Datatype::kBool, &byte, 2, 1), "datatype of numbers");
  EXPECT_DEATH(scale(Datatype::kBool, &byte, input, 1, input), "datatype of numbers");
  EXPECT_DEATH(reduce(ReduceOp::kSum, static_cast<Datatype>(99), &byte, input, input, 1), "known operation");
  EXPECT_DEATH(divide(Datatype::kInt8, &byte, 0, 1), "at least one");
}

}  // namespace
}  // namespace foldcast::kernels::test
