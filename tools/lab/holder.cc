#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"
#include "tools/lab/network.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

/// Best effort: read-only /proc/sys (in a container) only costs the tuning.
void write_setting(const char* path, std::string_view value) {
  UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (fd) write_all(fd.get(), value);
}

/// sysfs shows the network namespace it was mounted in, so each node mounts its own. What hwloc reads below /sys is the
/// same there, but for the cgroup tree, which is carried over. Best effort: a container may forbid it, and the byte
/// counters are in /proc/net/dev as well.
void mount_own_sysfs() {
  UniqueFd cgroup(::open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (::mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return;
  if (::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return;
  if (!cgroup) return;
  std::string source = fmt::format("/proc/self/fd/{}", cgroup.get());
  ::mount(source.c_str(), "/sys/fs/cgroup", nullptr, MS_BIND | MS_REC, nullptr);
}

void tune_network() {
  // No router solicitations or multicast reports: an idle link carries nothing.
  write_setting("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
  write_setting("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  // What clusters set: a pause between two steps must not throttle the next one.
  write_setting("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0");
  write_setting("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
  // The same on every machine, and in every kernel. Paced senders (bbr) measured no better here and vary more.
  write_setting("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
}

[[noreturn]] void hold(const std::string& name, pid_t parent, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, name.c_str());
  int error = 0;
  if (::unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) != 0 || ::sethostname(name.c_str(), name.size()) != 0) {
    error = errno;
  } else {
    mount_own_sysfs();
    tune_network();
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  [[maybe_unused]] auto written = ::write(report, &error, sizeof error);
  if (error != 0) ::_exit(1);
  ::close_range(0, ~0U, 0);
  ::signal(SIGTERM, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  while (true) ::sigsuspend(&none);
}

Status explain_refusal(int error) {
  auto limit = read_file("/proc/sys/user/max_user_namespaces").value_or("?");
  while (!limit.empty() && limit.back() == '\n') limit.pop_back();
  return unavailable(
      fmt::format("cannot make network namespaces ({}): run as root, or allow user namespaces "
                  "(sysctl user.max_user_namespaces is {})",
                  std::strerror(error), limit));
}

bool write_map(const char* path, const std::string& text) {
  UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  return fd && write_all(fd.get(), text);
}

/// Tried in a child, so that a failure leaves no trace in us.
int probe_namespaces() {
  pid_t pid = ::fork();
  if (pid < 0) return errno;
  if (pid == 0) ::_exit(::unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) == 0 ? 0 : errno);
  int wait_status = 0;
  ::waitpid(pid, &wait_status, 0);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EINTR;
}

}  // namespace

Result<bool> gain_namespace_rights() {
  if (probe_namespaces() == 0) return false;
  uid_t user = ::geteuid();
  gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return explain_refusal(errno);
  // Without setgroups "deny" an unprivileged process may not map its group.
  bool mapped = write_map("/proc/self/setgroups", "deny") &&
                write_map("/proc/self/uid_map", fmt::format("0 {} 1", user)) &&
                write_map("/proc/self/gid_map", fmt::format("0 {} 1", group));
  if (!mapped) return explain_refusal(errno);
  if (int error = probe_namespaces(); error != 0) return explain_refusal(error);
  return true;
}

Result<pid_t> fork_holder(const std::string& name) {
  FOLDCAST_ASSIGN(Pipe report, Pipe::create());
  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return system_error("cannot create the process that holds " + name, errno);
  if (pid == 0) hold(name, parent, report.write.get());
  report.write.reset();
  int error = 0;
  if (::read(report.read.get(), &error, sizeof error) == sizeof error && error == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  return system_error("cannot make the namespaces of " + name, error);
}

}  // namespace foldcast::tools
