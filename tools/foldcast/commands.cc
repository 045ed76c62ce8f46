#include "tools/foldcast/commands.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace foldcast::tools {

void finish(int exit_code) { throw CLI::RuntimeError(exit_code); }

void fail(const std::string& program, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), status.message().c_str());
  finish(status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailure);
}

std::vector<std::string> trailing_command(const CLI::App& subcommand, const std::string& program) {
  std::vector<std::string> command = subcommand.remaining();
  if (command.empty()) fail(program, invalid_argument("a command is missing; give it after '--'"));
  if (command.front().starts_with("-")) {
    fail(program, invalid_argument("unknown option '" + command.front() + "'; see " + program + " --help"));
  }
  return command;
}

CLI::Validator positive_seconds() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        bool good = error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0 &&
                    value < 1e8;
        return good ? "" : "'" + text + "' is not a time in seconds above 0";
      },
      "SECONDS");
}

}  // namespace foldcast::tools
