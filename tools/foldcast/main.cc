#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/foldcast.h"
#include "core/base/config.h"
#include "tools/foldcast/commands.h"

namespace foldcast::tools {
namespace {

/// The command at which the words from `at` on begin: behind the subcommand's options and their values.
std::size_t behind_options(const CLI::App& subcommand, const std::vector<char*>& words, std::size_t at) {
  while (at < words.size() && words[at][0] == '-' && std::string_view(words[at]) != "--") {
    const CLI::Option* option = subcommand.get_option_no_throw(words[at]);
    at += option != nullptr && option->get_items_expected_max() > 0 ? 2 : 1;
  }
  return at;
}

/// Without the "--" before a command to run: CLI11 ends a subcommand at it. What follows the subcommand's options is
/// taken verbatim anyway, and any "--" in there is the command's own.
std::vector<char*> without_separator(const CLI::App& app, int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  const CLI::App* subcommand = &app;
  std::size_t at = 1;
  for (; at < words.size(); ++at) {
    auto among = subcommand->get_subcommands([&](const CLI::App* each) { return each->check_name(words[at]); });
    if (among.empty()) break;
    subcommand = among.front();
  }
  if (!subcommand->get_prefix_command()) return words;
  at = behind_options(*subcommand, words, at);
  bool names_host = subcommand->get_name() == "exec";
  if (names_host && at < words.size() && std::string_view(words[at]) != "--") ++at;
  if (at < words.size() && std::string_view(words[at]) == "--") {
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
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
  app.set_version_flag("--version", std::string("foldcast ") + foldcast_version());
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return failed->get_name() + ": " + error.what() + "; see foldcast --help\n";
  });
  add_run(app);
  add_lab(app);
  add_perf(app);
  add_info(app);
  add_explain(app);
  add_calibrate(app);
  add_config(app);
  try {
    if (argc > 1) {
      if (Status status = check_subcommand(app, "foldcast", argv[1]); !status.ok()) fail("foldcast", status);
    }
    if (argc > 2 && std::string_view(argv[1]) == "lab") {
      Status status = check_subcommand(*app.get_subcommand("lab"), "foldcast lab", argv[2]);
      if (!status.ok()) fail("foldcast lab", status);
    }
    auto words = without_separator(app, argc, argv);
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
