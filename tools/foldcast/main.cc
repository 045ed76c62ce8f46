#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "tools/foldcast/commands.h"

namespace foldcast::tools {
namespace {

/// Without the "--" before a command to run: CLI11 ends a subcommand at it. What follows the subcommand's options is
/// taken verbatim anyway, up to and including any further "--".
std::vector<char*> without_separator(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  if (argc > 1 && (std::string_view(argv[1]) == "run" || std::string_view(argv[1]) == "lab")) {
    auto separator = std::find(words.begin(), words.end(), std::string_view("--"));
    if (separator != words.end()) words.erase(separator);
  }
  return words;
}

/// CLI11 only says that a subcommand is required; a mistyped one deserves its name and the nearest.
Status check_subcommand(const CLI::App& app, const std::string& program, const char* word) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands(nullptr)) names.push_back(subcommand->get_name());
  if (word[0] == '-' || std::find(names.begin(), names.end(), word) != names.end()) return ok_status();
  std::vector<std::string_view> views(names.begin(), names.end());
  auto nearest = nearest_name(word, views);
  return invalid_argument(
      "unknown subcommand '" + std::string(word) + "'" +
      (nearest ? "; did you mean '" + std::string(*nearest) + "'?" : "; see " + program + " --help"));
}

int run(int argc, char** argv) {
  CLI::App app("Foldcast: collectives that are reduced in the network where that wins, and on the hosts elsewhere",
               "foldcast");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    std::string name = failed->get_name().empty() ? "foldcast" : failed->get_name();
    return name + ": " + error.what() + "; see foldcast --help\n";
  });
  add_run(app);
  add_lab(app);
  add_perf(app);
  add_info(app);
  add_explain(app);
  add_config(app);
  try {
    if (argc > 1) {
      if (Status status = check_subcommand(app, "foldcast", argv[1]); !status.ok()) fail("foldcast", status);
    }
    if (argc > 2 && std::string_view(argv[1]) == "lab") {
      Status status = check_subcommand(*app.get_subcommand("lab"), "foldcast lab", argv[2]);
      if (!status.ok()) fail("foldcast lab", status);
    }
    auto words = without_separator(argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
    return 0;
  } catch (const CLI::RuntimeError& end) {  // a subcommand's own end, which has said what there is to say
    return end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    // Help and version count as errors to CLI11, with exit code 0.
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
}

}  // namespace
}  // namespace foldcast::tools

int main(int argc, char** argv) {
  try {
    return foldcast::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "foldcast: %s\n", error.what());
    return foldcast::tools::kExitFailure;
  }
}
