#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace foldcast::tools {

/// One subcommand each, in a file of its name. Its callback runs after parsing and ends with finish() or fail(); both
/// throw what main() turns into the exit code.
void add_run(CLI::App& app);
void add_lab(CLI::App& app);
void add_perf(CLI::App& app);
void add_info(CLI::App& app);
void add_explain(CLI::App& app);
void add_calibrate(CLI::App& app);
void add_config(CLI::App& app);

/// Exit codes of our own making, as far as a rank's do not stand in for them.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

/// Ends the subcommand with the exit code.
[[noreturn]] void finish(int exit_code);
/// Prints "PROGRAM: message" and ends: with kExitUsage for an invalid argument, else kExitFailure.
[[noreturn]] void fail(const std::string& program, const Status& status);

/// What follows the options of a subcommand made with prefix_command(), taken verbatim; main() has removed the "--".
/// Ends the subcommand with a clear line when there is nothing or an unknown option comes first.
std::vector<std::string> trailing_command(const CLI::App& subcommand, const std::string& program);

/// "10", "0.5": the time limit of -t in seconds; above 0.
CLI::Validator positive_seconds();

}  // namespace foldcast::tools
