#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/tools_perf/fake_foldcast.h"
#include "tools/foldcast/perf_run.h"

namespace foldcast::tools::testing {

/// Whole runs of perf, each rank a process, over the fake library.
class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "foldcast-run-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    flags_.min_bytes = "4";
    flags_.max_bytes = "1K";
    flags_.iterations = "3";
    flags_.warmup = "1";
    flags_.paths = "offload,host";
    flags_.json = directory_ / "out.json";
  }
  ~RunTest() override { std::filesystem::remove_all(directory_); }

  int run(const FakeBehaviour& behaviour) {
    auto options = validate(flags_);
    EXPECT_TRUE(options.ok()) << options.status().to_string();
    std::string out = directory_ / "out";
    std::string errors = directory_ / "err";
    return run_ranks(
        behaviour,
        [&] {
          // Every rank appends; only rank 0 should print a table.
          std::FILE* file = std::fopen(out.c_str(), "a");
          if (std::freopen(errors.c_str(), "a", stderr) == nullptr || file == nullptr) return 99;
          int code = run_perf(*options, file);
          std::fclose(file);
          return code;
        },
        &others_);
  }

  std::string text(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }
  nlohmann::json json() const { return nlohmann::json::parse(text("out.json")); }

  PerfFlags flags_;
  std::filesystem::path directory_;
  int others_ = 0;
};

}  // namespace foldcast::tools::testing
