#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>

#include "tests/tools/command.h"

namespace foldcast::tools::testing {
namespace {

const std::string kDirectory = FOLDCAST_SOURCE_DIRECTORY "/tools/workloads";

struct Model {
  const char* name;
  std::uint64_t parameters;  ///< as published
};

class Workload : public ::testing::TestWithParam<Model> {};

TEST_P(Workload, TheBucketsHoldThePublishedParameters) {
  std::istringstream lines(contents(kDirectory + "/" + GetParam().name + ".sizes"));
  std::uint64_t total = 0;
  int buckets = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line.substr(0, line.find('#')));
    std::uint64_t bytes = 0;
    if (!(fields >> bytes)) continue;
    EXPECT_EQ(bytes % 4, 0U);
    total += bytes;
    ++buckets;
  }
  EXPECT_EQ(total, 4 * GetParam().parameters);
  EXPECT_GT(buckets, 3);
}

TEST_P(Workload, TheFileIsWhatTheGeneratorMakes) {
  if (shell("command -v python3").code != 0) GTEST_SKIP() << "python3 is not installed";
  TemporaryDirectory directory;
  auto result = shell("python3 " + kDirectory + "/generate.py " + directory.path());
  ASSERT_EQ(result.code, 0) << result.err;
  std::string file = std::string("/") + GetParam().name + ".sizes";
  std::string made = contents(directory.path() + file);
  EXPECT_FALSE(made.empty());
  EXPECT_EQ(contents(kDirectory + file), made) << "run tools/workloads/generate.py";
}

INSTANTIATE_TEST_SUITE_P(Models, Workload,
                         ::testing::Values(Model{"resnet50", 25'557'032}, Model{"bert_large", 335'141'888},
                                           Model{"gpt2", 124'439'808}),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace foldcast::tools::testing
