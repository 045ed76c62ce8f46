#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tools/lab/process.h"

namespace foldcast::tools {

/// One process of a job.
struct JobProcess {
  std::string name;  ///< for errors: "rank 3 on node3"
  std::vector<std::string> command;
  std::vector<std::string> environment;
  const Namespaces* namespaces = nullptr;  ///< borrowed for the job's time; null: ours

  /// Where its output goes: kInherit: our own streams, untouched. kForward: through us, a copy into the log files where
  /// given. kFile: only into the log files.
  enum class Output { kInherit, kForward, kFile } output = Output::kForward;
  std::string prefix;   ///< of forwarded lines; empty: bytes pass through as they come
  std::string log_out;  ///< file for stdout; empty: none
  std::string log_err;
  int cpu = -1;              ///< the only one it may run on; -1: any that we may
  bool keeps_input = false;  ///< gets our standard input (unless that is a terminal, whose foreground job we are)
};

struct JobOptions {
  std::string program = "foldcast run";  ///< begins our own lines on stderr
  std::optional<std::chrono::nanoseconds> time_limit;
};

struct JobOutcome {
  int exit_code = 0;  ///< 0, the first failure's, 124 for the time limit, 128 + signal for an interruption
  std::optional<std::size_t> failed;  ///< index of the process that failed first
};

/// Starts the processes and blocks until all have ended, with everything they started: on a failure, the time limit or
/// SIGINT/SIGTERM/SIGHUP to us the rest is ended. Reports on stderr in one line who failed and how. An error means that
/// the job could not be started; then nothing of it is left either. Takes over the process's signals meanwhile; not for
/// programs with threads.
Result<JobOutcome> run_job(const std::vector<JobProcess>& processes, const JobOptions& options);

/// "FOLDCAST_TERMINAL=..." for a process that cannot see by itself whether what it says ends on our terminal.
std::string terminal_variable(bool forwarded);

/// A TCP port on 127.0.0.1 that is free now.
Result<std::uint16_t> free_port();

/// "CMD ..." for people: quoted where a shell would need it.
std::string shell_quoted(std::span<const std::string> command);

}  // namespace foldcast::tools
