#include "tools/lab/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "fmt/format.h"

#include "tools/system/file.h"
#include "tools/system/program.h"

extern char** environ;

namespace foldcast::tools {
namespace {

/// What the child reports through a close-on-exec pipe when it cannot become the program.
struct SpawnFailure {
  enum Stage : int { kNamespace, kProcessor, kDirectory, kStreams, kExecute } stage;
  int error;
};

std::vector<char*> pointers_to(std::span<const std::string> texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void fail_in_child(int report, SpawnFailure::Stage stage) {
  SpawnFailure failure{stage, errno};
  [[maybe_unused]] auto written = ::write(report, &failure, sizeof failure);
  ::_exit(127);
}

void reset_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGQUIT}) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Moves the three descriptors to 0, 1 and 2, whatever they are now.
bool place_streams(const int (&wanted)[3]) {
  int moved[3];
  for (int i = 0; i < 3; ++i) {
    int source = wanted[i] >= 0 ? wanted[i] : ::open("/dev/null", O_RDWR | O_CLOEXEC);
    // Above 2 first, so that placing one stream cannot overwrite the source of another.
    moved[i] = ::fcntl(source, F_DUPFD_CLOEXEC, 3);
    if (moved[i] < 0) return false;
  }
  for (int i = 0; i < 3; ++i) {
    if (::dup2(moved[i], i) < 0) return false;
  }
  return true;
}

struct ChildPlan {
  const SpawnRequest& request;
  char** arguments;
  char** variables;
  pid_t parent;
  int report;
};

[[noreturn]] void become_program(const ChildPlan& plan) {
  ::setpgid(0, 0);
  reset_signals();
  if (plan.request.namespaces && !plan.request.namespaces->enter()) {
    fail_in_child(plan.report, SpawnFailure::kNamespace);
  }
  if (plan.request.cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(plan.request.cpu), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) fail_in_child(plan.report, SpawnFailure::kProcessor);
  }
  // After the namespaces: a change of credentials clears it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);
  if (!plan.request.directory.empty() && ::chdir(plan.request.directory.c_str()) != 0) {
    fail_in_child(plan.report, SpawnFailure::kDirectory);
  }
  if (!place_streams({plan.request.input, plan.request.output, plan.request.error})) {
    fail_in_child(plan.report, SpawnFailure::kStreams);
  }
  environ = plan.variables;  // also decides in which PATH the program is looked up
  ::execvp(plan.arguments[0], plan.arguments);
  fail_in_child(plan.report, SpawnFailure::kExecute);
}

Status describe(const SpawnFailure& failure, const SpawnRequest& request) {
  switch (failure.stage) {
    case SpawnFailure::kNamespace:
      return system_error("cannot enter the namespaces for '" + request.command[0] + "' (is the lab up, and yours?)",
                          failure.error);
    case SpawnFailure::kProcessor:
      return system_error(fmt::format("cannot bind '{}' to processor {}", request.command[0], request.cpu),
                          failure.error);
    case SpawnFailure::kDirectory:
      return system_error("cannot enter " + request.directory, failure.error);
    case SpawnFailure::kStreams:
      return system_error("cannot set up the streams of a process", failure.error);
    case SpawnFailure::kExecute:
      break;
  }
  return system_error("cannot start '" + request.command[0] + "'", failure.error);
}

struct StatFields {
  char state = '?';
  std::uint64_t start_time = 0;
};

std::optional<StatFields> read_stat(pid_t pid) {
  auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return std::nullopt;
  // The command name in parentheses may hold anything; the fields after it are plain.
  auto close = text->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(close + 1));
  StatFields stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace

std::optional<ProcessIdentity> identify(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  auto stat = read_stat(pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return ProcessIdentity{pid, stat->start_time};
}

bool is_alive(const ProcessIdentity& process) {
  auto now = identify(process.pid);
  return now && now->start_time == process.start_time;
}

bool signal_if_alive(const ProcessIdentity& process, int signal) {
  // The descriptor pins the pid, so that the check and the signal meet the same process.
  UniqueFd pinned(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!is_alive(process)) return false;
  if (pinned) return ::syscall(SYS_pidfd_send_signal, pinned.get(), signal, nullptr, 0) == 0;
  return ::kill(process.pid, signal) == 0;
}

bool wait_until_gone(const ProcessIdentity& process, Deadline deadline) {
  UniqueFd pinned(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  while (is_alive(process)) {
    if (deadline.passed()) return false;
    pollfd entry{pinned.get(), POLLIN, 0};
    ::poll(&entry, pinned ? 1 : 0, deadline.poll_timeout(pinned ? 1 << 30 : 20));
  }
  return true;
}

Result<Namespaces> Namespaces::open(pid_t pid, std::span<const char* const> kinds) {
  Namespaces namespaces;
  std::string process = "/proc/" + std::to_string(pid);
  for (const char* kind : kinds) {
    std::string path = process + "/ns/" + kind;
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return system_error("cannot open " + path, errno);
    namespaces.spaces_.push_back(std::move(fd));
    if (std::string_view(kind) != "mnt") continue;
    namespaces.root_.reset(::open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!namespaces.root_) return system_error("cannot open " + process + "/root", errno);
  }
  return namespaces;
}

bool Namespaces::enter() const {
  for (const UniqueFd& space : spaces_) {
    if (::setns(space.get(), 0) != 0) return false;
  }
  return !root_ || (::fchdir(root_.get()) == 0 && ::chroot(".") == 0);
}

Result<pid_t> spawn(const SpawnRequest& request) {
  FOLDCAST_CHECK(!request.command.empty(), "a process needs a command");
  FOLDCAST_ASSIGN(Pipe report, Pipe::create());
  auto arguments = pointers_to(request.command);
  auto variables = pointers_to(request.environment);
  ChildPlan plan{request, arguments.data(), variables.data(), ::getpid(), report.write.get()};
  pid_t pid = ::fork();
  int error = errno;
  if (pid == 0) become_program(plan);
  if (pid < 0) return system_error("cannot create a process for '" + request.command[0] + "'", error);
  report.write.reset();
  SpawnFailure failure{};
  ssize_t got;
  do {
    got = ::read(report.read.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  return describe(failure, request);
}

std::vector<std::string> environment_with(std::span<const std::string> changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text(*entry);
    auto name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& change : changes) replaced |= change.starts_with(name);
    if (!replaced) result.emplace_back(text);
  }
  result.insert(result.end(), changes.begin(), changes.end());
  return result;
}

Status run_tool(std::span<const std::string> command, std::string_view input, const Namespaces* namespaces,
                Deadline deadline) {
  FOLDCAST_ASSIGN(UniqueFd in, memory_file("input", input));
  FOLDCAST_ASSIGN(UniqueFd errors, memory_file("errors", ""));
  std::vector<std::string> path = {path_of_programs()};
  auto environment = environment_with(path);
  SpawnRequest request{.command = command, .environment = environment, .namespaces = namespaces};
  request.input = in.get();
  request.error = errors.get();
  FOLDCAST_ASSIGN(pid_t pid, spawn(request));
  auto identity = identify(pid);
  if (identity && !wait_until_gone(*identity, deadline)) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return timeout("'" + command[0] + "' did not end in time");
  }
  int wait_status = 0;
  if (::waitpid(pid, &wait_status, 0) != pid) return system_error("cannot wait for '" + command[0] + "'", errno);
  if (wait_status == 0) return ok_status();
  char text[512];
  ssize_t length = ::pread(errors.get(), text, sizeof text, 0);
  std::string line(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  line = line.substr(0, line.find('\n'));
  return unavailable("'" + command[0] + "' " + describe_exit(wait_status) + (line.empty() ? "" : ": " + line));
}

std::string describe_exit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    int signal = WTERMSIG(wait_status);
    return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

Result<Pipe> Pipe::create() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error("cannot create a pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace foldcast::tools
