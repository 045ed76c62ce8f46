#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::tools {

/// Which process, for certain: the kernel reuses pids, so one is trusted only together with its start time.
struct ProcessIdentity {
  pid_t pid = -1;
  std::uint64_t start_time = 0;  ///< clock ticks since boot, field 22 of /proc/PID/stat
};

/// Nothing when there is no such process, or only its zombie.
std::optional<ProcessIdentity> identify(pid_t pid);
/// Whether that very process still runs.
bool is_alive(const ProcessIdentity& process);
/// Sends the signal only if that very process still runs; then true.
bool signal_if_alive(const ProcessIdentity& process, int signal);
/// Sleeps on a process descriptor until it is gone, at most until the deadline; false when it still runs then.
bool wait_until_gone(const ProcessIdentity& process, Deadline deadline);

/// Namespaces of one node or switch of a lab.
class Namespaces {
 public:
  /// Of a running process; `kinds` are names in /proc/PID/ns, e.g. {"user", "mnt", "net", "uts"}, in the order in which
  /// they must be entered.
  static Result<Namespaces> open(pid_t pid, std::span<const char* const> kinds);

  /// Moves the calling process into them; on an error, false with errno, it may be in some of them. With a mount
  /// namespace also to that process's root directory, which becomes the working directory: the kernel would leave us
  /// at the namespace's own root, which is not ours in a chroot.
  bool enter() const;

 private:
  std::vector<UniqueFd> spaces_;
  UniqueFd root_;
};

/// What to start and with what around it. Borrowed members must live until spawn() returns.
struct SpawnRequest {
  std::span<const std::string> command;      ///< command[0] is looked up in PATH of `environment`
  std::span<const std::string> environment;  ///< "NAME=value", complete
  const Namespaces* namespaces = nullptr;    ///< entered first; null: ours
  std::string directory = {};                ///< working directory, entered after the namespaces; empty: ours
  int cpu = -1;                              ///< the only one it may run on; -1: as we may
  int input = -1;                            ///< descriptors for 0, 1 and 2; -1: /dev/null
  int output = -1;
  int error = -1;
};

/// Starts a process as leader of its own process group, with default signal handling, which the kernel kills when the
/// calling thread ends. Blocks until the program is executing; a program that cannot be is an error that says why.
/// All other descriptors of the caller must be close-on-exec. Not for programs with threads: it forks.
Result<pid_t> spawn(const SpawnRequest& request);

/// This process's environment with `changes` applied ("NAME=value" replaces or adds).
std::vector<std::string> environment_with(std::span<const std::string> changes);

/// Runs a system tool to its end with `input` on its standard input, in `namespaces`' (null: ours).
/// An exit code other than 0 is an error with the first line the tool wrote to stderr; so is passing the deadline.
Status run_tool(std::span<const std::string> command, std::string_view input, const Namespaces* namespaces,
                Deadline deadline);

/// "exited with code 3" or "was killed by signal 9 (Killed)".
std::string describe_exit(int wait_status);
/// The code a shell would give: the exit code, or 128 plus the signal.
int exit_code_of(int wait_status);

/// Close-on-exec pipe: read end, write end.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
  static Result<Pipe> create();
};

}  // namespace foldcast::tools
