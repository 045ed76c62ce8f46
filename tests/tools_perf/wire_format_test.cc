#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools_perf/run_fixture.h"

namespace foldcast::tools {
namespace {

using ::testing::HasSubstr;
using testing::RunTest;

TEST_F(RunTest, ANarrowWireFormatIsJudgedByItsBound) {
  flags_.min_bytes = flags_.max_bytes = "12K";
  flags_.iterations = "1";
  flags_.paths = "host";
  for (const char* collective : {"all_reduce", "reduce", "reduce_scatter", "reduce_scatterv", "all_gather"}) {
    flags_.collective = collective;
    flags_.ops = "sum,prod,min,max,avg,premul_sum";
    for (const char* wire : {"bfloat16", "float16", "float8"}) {
      flags_.wire = wire;
      for (int ranks : {1, 3, 8}) {
        ASSERT_EQ(run({.ranks = ranks}), 0) << collective << " " << wire << " " << ranks << ": " << text("err");
      }
    }
  }
  EXPECT_THAT(text("out"), HasSubstr("wire format: float8"));
}

TEST_F(RunTest, AFormatNarrowerThanAskedForIsWrong) {
  flags_.min_bytes = flags_.max_bytes = "12K";
  flags_.iterations = "1";
  flags_.paths = "host";
  for (const char* wire : {"exact", "float16"}) {
    flags_.wire = wire;
    ASSERT_EQ(run({.ranks = 2, .lossy = true}), 1) << wire;
    EXPECT_GT(json()[0]["wrong"], 0);
  }
}

}  // namespace
}  // namespace foldcast::tools
