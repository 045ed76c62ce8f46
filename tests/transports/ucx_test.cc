// What only the UCX backend has: the wire, and devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/transports/ranks.h"
#include "transports/ucx/wire.h"

namespace foldcast::transports {
namespace {

using ::testing::HasSubstr;

TEST(UcxWire, OnlyWholeSaneHeadersAreBelieved) {
  WireHeader good;
  good.bytes = 10;
  good.signature = kCall;
  ASSERT_TRUE(parse_header(&good, sizeof good, 10).has_value());
  EXPECT_FALSE(parse_header(&good, sizeof good, 11)) << "another length than it says";
  for (std::size_t length = 0; length < sizeof good; ++length) EXPECT_FALSE(parse_header(&good, length, 10));
  auto broken = [&](auto change) {
    WireHeader header = good;
    change(header);
    return !parse_header(&header, sizeof header, 10).has_value();
  };
  EXPECT_TRUE(broken([](WireHeader& h) { h.magic ^= 1; }));
  EXPECT_TRUE(broken([](WireHeader& h) { ++h.version; }));
  EXPECT_TRUE(broken([](WireHeader& h) { h.kind = static_cast<WireKind>(0); }));
  EXPECT_TRUE(broken([](WireHeader& h) { h.kind = static_cast<WireKind>(99); }));
  EXPECT_TRUE(broken([](WireHeader& h) { h.kind = WireKind::kHello; })) << "a hello has no payload";
  EXPECT_TRUE(broken([](WireHeader& h) { h.signature.kind = static_cast<Collective>(200); }));
  EXPECT_TRUE(broken([](WireHeader& h) { h.signature.dtype = static_cast<Datatype>(200); }));
  EXPECT_TRUE(broken([](WireHeader& h) { h.signature.op = static_cast<ReduceOp>(240); }));
}

TEST(UcxInfo, DescribesItself) { EXPECT_THAT(describe_ucx(), HasSubstr("UCX ")); }

TEST(UcxInfo, AnUnknownDeviceIsUnavailable) {
  auto made = make_ucx({{.token = 1}, "nosuchdevice0"});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace foldcast::transports
