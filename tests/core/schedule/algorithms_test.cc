#include "core/schedule/algorithms/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "core/schedule/cost.h"
#include "core/schedule/program.h"
#include "core/schedule/verify.h"

namespace foldcast::schedule {
namespace {

constexpr std::uint32_t kLargest = 64;

class EveryAlgorithm : public testing::TestWithParam<AllReduceEntry> {};

INSTANTIATE_TEST_SUITE_P(AllReduce, EveryAlgorithm, testing::ValuesIn(all_reduce_algorithms().begin(), all_reduce_algorithms().end()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(EveryAlgorithm, VerifiesForEverySizeTo64) {
  for (std::uint32_t n = 1; n <= kLargest; ++n) {
    const Status verified = verify_all_reduce(build_flat(GetParam(), n));
    ASSERT_TRUE(verified.ok()) << n << " ranks: " << verified.to_string();
  }
}

}  // namespace
}  // namespace foldcast::schedule
