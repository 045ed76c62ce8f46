// Each row of the table in docs/design.md, section 2, may include from rows above it only.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 12> kRows = {"core/base",    "core/schedule", "core/bootstrap", "kernels",
                                                    "transports",   "hierarchy",     "offload",        "core/select",
                                                    "core/runtime", "core/api",      "shims",          "tools"};

std::optional<std::size_t> row_of(std::string_view path) {
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    if (path.starts_with(std::string(kRows[row]) + "/")) return row;
  }
  return std::nullopt;
}

/// What is wrong with the includes of one file, one line each.
std::vector<std::string> violations(const std::string& path, const std::string& text) {
  static const std::regex include("(^|\\n)\\s*#\\s*include\\s*\"([^\"]+)\"");
  std::vector<std::string> found;
  const auto own = row_of(path);
  if (!own) return found;
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
    const std::string included = (*it)[2];
    const auto other = row_of(included);
    if (other && *other > *own) {
      found.push_back(fmt::format("{} ({}) includes {} ({})", path, kRows[*own], included, kRows[*other]));
    }
  }
  return found;
}

TEST(Layering, NoLayerIncludesFromOneBelowIt) {
  const fs::path root = FOLDCAST_SOURCE_DIR;
  std::size_t files = 0;
  for (std::string_view row : kRows) {
    if (!fs::exists(root / row)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / row)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".hpp" && extension != ".cu") continue;
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      ++files;
      for (const auto& line : violations(fs::relative(entry.path(), root).string(), text)) ADD_FAILURE() << line;
    }
  }
  EXPECT_GT(files, 50u) << "the sources were not found under " << root;
}

TEST(Layering, InterfacesNameNoVerbsOrCudaHeader) {
  const fs::path root = FOLDCAST_SOURCE_DIR;
  for (const char* interface : {"transports/transport.h", "hierarchy/node_group.h", "offload/provider.h",
                                "kernels/reducer.h", "core/base/engine.h", "core/api/foldcast.h"}) {
    std::ifstream file(root / interface);
    ASSERT_TRUE(file) << interface;
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_FALSE(std::regex_search(text, std::regex("#include\\s*<(infiniband|rdma|ucp|uct|cuda)")));
  }
}

TEST(Layering, TheCheckItselfSeesAViolation) {
  EXPECT_EQ(violations("core/base/x.h", "#pragma once\n#include \"core/runtime/executor.h\"\n").size(), 1u);
  EXPECT_EQ(violations("kernels/x.cc", "#include \"transports/transport.h\"\n").size(), 1u);
  EXPECT_TRUE(violations("tools/x.cc", "#include \"core/api/foldcast.h\"\n#include <core/base/x.h>\n").empty());
}

}  // namespace
