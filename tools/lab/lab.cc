#include "tools/lab/lab.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/lab/supervisor.h"
#include "tools/system/program.h"

namespace foldcast::tools {
namespace {

namespace fs = std::filesystem;

constexpr auto kLockTime = std::chrono::seconds(20);
constexpr auto kJobEndTime = std::chrono::seconds(6);
constexpr auto kSupervisorEndTime = std::chrono::seconds(5);
constexpr auto kHolderEndTime = std::chrono::seconds(2);

Status require_tools() {
  for (const char* tool : {"ip", "bridge", "tc"}) {
    if (find_program(tool).empty()) {
      return unavailable(fmt::format("'{}' is not installed; install the package iproute2", tool));
    }
  }
  return ok_status();
}

/// Beside us as installed or built, else in PATH.
Result<std::string> find_aggregator_program() {
  std::string beside = program_directory() + "/foldcastd";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  std::string found = find_program("foldcastd");
  if (!found.empty()) return found;
  return unavailable("foldcastd is neither in " + program_directory() +
                     " nor in PATH; build it, or use --aggregators none");
}

std::optional<ino_t> network_of(pid_t pid) {
  struct stat info {};
  if (::stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &info) != 0) return std::nullopt;
  return info.st_ino;
}

/// Kills whatever else runs in the lab's networks (what `lab exec` left in the background). Only while the holders are
/// alive: they keep the namespaces' numbers from being reused, so that no stranger is killed.
void kill_inhabitants(const LabState& state) {
  std::set<ino_t> networks;
  std::set<pid_t> spared;
  for (const auto& [name, holder] : state.holders) {
    if (!is_alive(holder)) continue;
    spared.insert(holder.pid);
    if (auto network = network_of(holder.pid)) networks.insert(*network);
  }
  for (const auto& [name, aggregator] : state.aggregators) spared.insert(aggregator.pid);
  std::vector<ProcessIdentity> killed;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 1 || spared.contains(pid)) continue;
    auto identity = identify(pid);
    auto network = network_of(pid);
    if (!identity || !network || !networks.contains(*network)) continue;
    if (signal_if_alive(*identity, SIGKILL)) killed.push_back(*identity);
  }
  Deadline deadline = Deadline::after(kHolderEndTime);
  for (const ProcessIdentity& process : killed) wait_until_gone(process, deadline);
}

void end_jobs(const StateDirectory& directory) {
  auto jobs = running_jobs(directory);
  for (const LabJob& job : jobs) signal_if_alive(job.runner, SIGTERM);
  Deadline deadline = Deadline::after(kJobEndTime);
  for (const LabJob& job : jobs) {
    if (!wait_until_gone(job.runner, deadline)) signal_if_alive(job.runner, SIGKILL);
  }
}

Status end_lab(const StateDirectory& directory, const LabState& state) {
  if (state.boot_id != current_boot_id()) return ok_status();
  end_jobs(directory);
  if (!is_alive(state.supervisor)) return ok_status();
  kill_inhabitants(state);
  signal_if_alive(state.supervisor, SIGTERM);
  if (!wait_until_gone(state.supervisor, Deadline::after(kSupervisorEndTime))) {
    signal_if_alive(state.supervisor, SIGKILL);
    if (!wait_until_gone(state.supervisor, Deadline::after(kSupervisorEndTime))) {
      return timeout(fmt::format("the supervisor (pid {}) does not end; the kernel holds it", state.supervisor.pid));
    }
  }
  // The kernel kills them with their parent, a moment later; the namespaces go with them.
  Deadline deadline = Deadline::after(kHolderEndTime);
  for (const auto& [name, holder] : state.holders) wait_until_gone(holder, deadline);
  return ok_status();
}

Status take_down_locked(const std::string& root, const std::string& name) {
  StateDirectory directory(root, name);
  if (!directory.exists()) {
    auto names = lab_names(root);
    return invalid_argument(names.empty()
                                ? fmt::format("there is no lab '{}', nor any other", name)
                                : fmt::format("there is no lab '{}'; there is {}", name, fmt::join(names, ", ")));
  }
  if (auto state = directory.load()) FOLDCAST_RETURN_IF_ERROR(end_lab(directory, *state));
  directory.remove();
  return ok_status();
}

}  // namespace

Status bring_lab_up(const LabSpec& spec) {
  FOLDCAST_RETURN_IF_ERROR(spec.validate());
  FOLDCAST_RETURN_IF_ERROR(require_tools());
  std::string aggregator_program;
  if (spec.aggregators != AggregatorPlacement::kNone) {
    FOLDCAST_ASSIGN(aggregator_program, find_aggregator_program());
  }
  FOLDCAST_ASSIGN(std::string root, state_root());
  FOLDCAST_ASSIGN(UniqueFd lock, lock_labs(root, Deadline::after(kLockTime)));
  StateDirectory directory(root, spec.name);
  if (directory.exists()) {
    auto state = directory.load();
    if (state && is_up(*state)) {
      return invalid_argument(fmt::format(
          "lab '{0}' is already up; take it down with 'foldcast lab down --name {0}' or choose another --name",
          spec.name));
    }
    FOLDCAST_RETURN_IF_ERROR(take_down_locked(root, spec.name));
  }
  FOLDCAST_RETURN_IF_ERROR(directory.create());
  Status status = start_supervisor(spec, directory, aggregator_program, lock.get());
  if (!status.ok()) directory.remove();  // if it could not do so itself
  return status;
}

Status take_lab_down(const std::string& name) {
  FOLDCAST_RETURN_IF_ERROR(validate_lab_name(name));
  FOLDCAST_ASSIGN(std::string root, state_root());
  FOLDCAST_ASSIGN(UniqueFd lock, lock_labs(root, Deadline::after(kLockTime)));
  return take_down_locked(root, name);
}

Result<std::vector<std::string>> take_all_labs_down() {
  FOLDCAST_ASSIGN(std::string root, state_root());
  FOLDCAST_ASSIGN(UniqueFd lock, lock_labs(root, Deadline::after(kLockTime)));
  auto names = lab_names(root);
  for (const std::string& name : names) FOLDCAST_RETURN_IF_ERROR(take_down_locked(root, name).with_context(name));
  return names;
}

Result<LoadedLab> load_running_lab(const std::string& name) {
  FOLDCAST_RETURN_IF_ERROR(validate_lab_name(name));
  FOLDCAST_ASSIGN(std::string root, state_root());
  StateDirectory directory(root, name);
  auto state = directory.load();
  std::string option = name == LabSpec().name ? "" : " --name " + name;
  if (!state) {
    return unavailable(fmt::format("there is no lab '{}'; bring it up with 'foldcast lab up{}'", name, option));
  }
  if (!is_up(*state)) {
    return unavailable(
        fmt::format("lab '{}' has crashed (its supervisor, pid {}, is gone); clean up with 'foldcast lab down{}'", name,
                    state->supervisor.pid, option));
  }
  return LoadedLab{directory, *std::move(state)};
}

}  // namespace foldcast::tools
