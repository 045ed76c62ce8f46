#include "core/select/estimate.h"

#include <gtest/gtest.h>

#include "core/select/calibrate.h"

namespace foldcast::select {
namespace {

using hierarchy::Layout;
using Form = hierarchy::Composition::Form;

CallShape bytes_of(std::uint64_t bytes) { return {.op = ReduceOp::kMax, .count = bytes}; }

TEST(Estimator, TermsAreTheTextbooks) {
  const Layout layout = Layout::uniform(8, 1);
  Estimator estimator(layout, {});
  auto ring = estimator.terms_of(Collective::kAllReduce, "ring", 8);
  ASSERT_TRUE(ring.ok());
  EXPECT_DOUBLE_EQ(ring->rounds, 14);
  EXPECT_NEAR(ring->sent_bytes, 1.75, 1e-9);
  auto doubling = estimator.terms_of(Collective::kAllReduce, "recursive_doubling", 8);
  ASSERT_TRUE(doubling.ok());
  EXPECT_DOUBLE_EQ(doubling->rounds, 3);
  EXPECT_NEAR(doubling->sent_bytes, 3, 1e-9);
  auto halving = estimator.terms_of(Collective::kAllReduce, "halving_doubling", 8);
  ASSERT_TRUE(halving.ok());
  EXPECT_DOUBLE_EQ(halving->rounds, 6);
  EXPECT_NEAR(halving->sent_bytes, 1.75, 1e-9);
}

TEST(Estimator, SmallCallsPreferFewRoundsLargeOnesFewBytes) {
  const Layout layout = Layout::uniform(8, 1);
  LinkModel model;
  model.latency_us = 50;
  model.bytes_per_us = 100;
  Estimator estimator(layout, model);
  const auto price = [&](const char* network, std::uint64_t bytes) {
    return estimator.price(bytes_of(bytes), {Form::kFlat, network, 1})->us;
  };
  EXPECT_LT(price("recursive_doubling", 8), price("ring", 8));
  EXPECT_LT(price("ring", 64 << 20), price("recursive_doubling", 64 << 20));
  EXPECT_LT(price("halving_doubling", 64 << 10), price("recursive_doubling", 256 << 10));
}

TEST(Estimator, LargeCallsAreCutAndBounded) {
  const Layout layout = Layout::uniform(4, 2);
  Estimator estimator(layout, {});
  auto price = estimator.price(bytes_of(std::uint64_t{1} << 30), {Form::kShards, "ring", 2});
  ASSERT_TRUE(price.ok());
  EXPECT_LE(price->pipelining.fragment_bytes, 4u << 20);
  EXPECT_GT(price->pipelining.depth, 1u);
}

/// A made-up fabric: calibration must find its numbers.
class Fabric {
 public:
  Fabric(const Layout& layout, double latency_us, double bytes_per_us)
      : estimator_(layout, model_of(latency_us, bytes_per_us)) {}
  static LinkModel model_of(double latency_us, double bytes_per_us) {
    LinkModel model;
    model.latency_us = latency_us;
    model.bytes_per_us = bytes_per_us;
    model.reduce_bytes_per_us = 1e9;  // calibration sees what the links and the reduction take together
    model.tree = true;
    model.tree_caps.fragment_bytes = 64 << 10;
    model.tree_caps.depth = 2;
    model.tree_latency_us = 3 * latency_us;
    model.tree_bytes_per_us = bytes_per_us;
    return model;
  }
  Result<double> run(const hierarchy::Composition& composition, std::uint64_t bytes) {
    ++calls;
    FOLDCAST_ASSIGN(const auto price, estimator_.price(bytes_of(bytes), composition));
    return price.us;
  }
  int calls = 0;

 private:
  Estimator estimator_;
};

TEST(Calibrate, FindsTheFabricsNumbers) {
  for (double bytes_per_us : {25.0, 1000.0, 12000.0}) {
    const Layout layout = Layout::uniform(8, 1);
    Fabric fabric(layout, 40, bytes_per_us);
    LinkModel start;
    start.tree = true;
    start.tree_caps = Fabric::model_of(40, 1).tree_caps;
    auto found = calibrate(layout, start, {}, [&](const auto& composition, std::uint64_t bytes) {
      return fabric.run(composition, bytes);
    });
    ASSERT_TRUE(found.ok());
    EXPECT_NEAR(found->latency_us, 40, 4);
    EXPECT_NEAR(found->bytes_per_us / bytes_per_us, 1, 0.15);
    EXPECT_NEAR(found->tree_latency_us, 120, 15);
    EXPECT_DOUBLE_EQ(found->tree_bytes_per_us, found->bytes_per_us);
    EXPECT_LT(fabric.calls, 60);
  }
}

TEST(Calibrate, ConfiguredNumbersAreKept) {
  const Layout layout = Layout::uniform(4, 1);
  Fabric fabric(layout, 40, 500);
  auto found = calibrate(layout, {}, {7, 99},
                         [&](const auto& composition, std::uint64_t bytes) { return fabric.run(composition, bytes); });
  ASSERT_TRUE(found.ok());
  EXPECT_DOUBLE_EQ(found->latency_us, 7);
  EXPECT_DOUBLE_EQ(found->bytes_per_us, 99);
  EXPECT_EQ(fabric.calls, 0);
}

TEST(Calibrate, AnErrorOfACallIsTheResult) {
  const Layout layout = Layout::uniform(4, 1);
  auto found = calibrate(layout, {}, {}, [](const auto&, std::uint64_t) -> Result<double> {
    return peer_failed("rank 2 (node2) failed");
  });
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kPeerFailed);
}

}  // namespace
}  // namespace foldcast::select
