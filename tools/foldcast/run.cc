#include <charconv>
#include <memory>

#include "fmt/format.h"
#include "tools/foldcast/commands.h"
#include "tools/lab/binding.h"
#include "tools/lab/job.h"
#include "tools/system/program.h"

namespace foldcast::tools {
namespace {

constexpr const char* kProgram = "foldcast run";
constexpr int kMaxRanks = 1024;

struct RunOptions {
  std::string ranks = "1";
  double seconds = 0;
  std::string bind_to = "none";
};

/// "4" or "2,3,4,7".
Result<std::vector<int>> parse_rank_counts(const std::string& text) {
  std::vector<int> counts;
  for (std::size_t start = 0; start <= text.size();) {
    std::size_t end = std::min(text.find(',', start), text.size());
    int count = 0;
    auto [stop, error] = std::from_chars(text.data() + start, text.data() + end, count);
    if (error != std::errc() || stop != text.data() + end || count < 1 || count > kMaxRanks) {
      return invalid_argument(
          fmt::format("-n '{}' is no number of ranks; give 1 to {}, or a list such as 2,3,4", text, kMaxRanks));
    }
    counts.push_back(count);
    start = end + 1;
  }
  return counts;
}

struct Limits {
  double seconds = 0;  ///< 0: none
  Binding binding = Binding::kNone;
};

Result<int> run_ranks(int size, const std::vector<std::string>& command, const Limits& limits) {
  FOLDCAST_ASSIGN(std::uint16_t port, free_port());
  std::vector<JobProcess> processes;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> changes = {fmt::format("FOLDCAST_RANK={}", rank),
                                        fmt::format("FOLDCAST_SIZE={}", size),
                                        fmt::format("FOLDCAST_LOCAL_RANK={}", rank),
                                        fmt::format("FOLDCAST_STORE=127.0.0.1:{}", port),
                                        path_with_program_directory(),
                                        terminal_variable(size > 1)};
    JobProcess process;
    process.name = fmt::format("rank {}", rank);
    process.command = command;
    process.environment = environment_with(changes);
    process.output = size == 1 ? JobProcess::Output::kInherit : JobProcess::Output::kForward;
    process.prefix = size == 1 ? "" : fmt::format("[{}] ", rank);
    process.keeps_input = rank == 0;
    process.cpu = processor_of(limits.binding, rank);
    processes.push_back(std::move(process));
  }
  JobOptions options;
  if (limits.seconds > 0) {
    options.time_limit =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(limits.seconds));
  }
  FOLDCAST_ASSIGN(JobOutcome outcome, run_job(processes, options));
  return outcome.exit_code;
}

void run(const CLI::App& subcommand, const RunOptions& options) {
  auto command = trailing_command(subcommand, kProgram);
  auto counts = parse_rank_counts(options.ranks);
  if (!counts.ok()) fail(kProgram, counts.status());
  auto binding = parse_binding(options.bind_to);
  if (!binding.ok()) fail(kProgram, binding.status());
  for (int count : *counts) {
    if (counts->size() > 1) fmt::print(stderr, "{}: {} rank{}\n", kProgram, count, count == 1 ? "" : "s");
    auto code = run_ranks(count, command, {options.seconds, *binding});
    if (!code.ok()) fail(kProgram, code.status());
    if (*code != 0) finish(*code);
  }
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run_command =
      app.add_subcommand("run",
                         "Run a command as several ranks on this machine: foldcast run -n 4 -- CMD ...\n"
                         "One rank's failure ends all; its exit code is returned (128 + signal).");
  run_command->add_option("-n", options->ranks, "Ranks; a list (2,3,4) runs one size after another")
      ->capture_default_str();
  run_command->add_option("-t", options->seconds, "End all after so many seconds, with exit code 124")
      ->check(positive_seconds());
  run_command->add_option("--bind-to", options->bind_to, "core: each rank to a core of its own; none")
      ->capture_default_str();
  run_command->prefix_command();
  run_command->callback([run_command, options] { run(*run_command, *options); });
}

}  // namespace foldcast::tools
