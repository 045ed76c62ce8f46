#include "tools/lab/job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <sstream>
#include <utility>

#include "fmt/format.h"
#include "tools/lab/forward.h"
#include "tools/lab/guardian.h"
#include "tools/lab/job_signals.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

constexpr int kTimeLimitCode = 124;
/// After a first failure the others have this long to notice and report it by themselves, then SIGTERM: more than the
/// default of FOLDCAST_TIMEOUT, by which the last of them notices.
constexpr auto kNoticeTime = std::chrono::milliseconds(6000);
/// From SIGTERM to SIGKILL.
constexpr auto kTerminationTime = std::chrono::milliseconds(2000);
/// After everything is dead: for the last bytes in the pipes, and for a process the kernel cannot end (state D).
constexpr auto kDrainTime = std::chrono::milliseconds(500);
constexpr auto kUnkillableTime = std::chrono::milliseconds(5000);

/// Kills a child of ours and reaps it; waits for it no longer than a killable process can take.
void end_now(pid_t child) {
  ::kill(child, SIGKILL);
  if (auto identity = identify(child)) wait_until_gone(*identity, Deadline::after(kDrainTime));
  ::waitpid(child, nullptr, WNOHANG);
}

class Job {
 public:
  Job(const std::vector<JobProcess>& processes, const JobOptions& options, JobSignals& signals, Guardian& guardian)
      : processes_(processes), options_(options), signals_(signals), guardian_(guardian) {}

  ~Job() { kill_everything(); }

  Status start();
  JobOutcome run();

 private:
  enum class Phase { kRunning, kNoticing, kTerminating, kKilled, kDraining };

  Status start_process(std::size_t index);
  Result<int> route_stream(const JobProcess& process, bool is_error, UniqueFd& keeper);
  void say(const std::string& line) { standard_error_.append(options_.program + ": " + line + "\n"); }

  void wait_for_events();
  void advance();
  void enter(Phase phase, std::chrono::nanoseconds time);
  void serve_signals();
  void interrupted(int signal);
  void reap();
  void process_ended(std::size_t index, int wait_status);
  void signal_all(int signal);
  void kill_everything();
  bool finished() const;

  const std::vector<JobProcess>& processes_;
  const JobOptions& options_;
  JobSignals& signals_;
  Guardian& guardian_;
  Sink standard_output_{STDOUT_FILENO};
  Sink standard_error_{STDERR_FILENO};
  std::vector<Forwarder> forwarders_;
  std::vector<pid_t> pids_;  ///< -1: ended
  std::size_t running_ = 0;
  Phase phase_ = Phase::kRunning;
  std::optional<Deadline> next_;  ///< of the phase
  bool reader_may_delay_ = false;
  JobOutcome outcome_;
};

Status Job::start() {
  if (options_.time_limit) next_ = Deadline::after(*options_.time_limit);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (Status status = start_process(i); !status.ok()) return status.with_context(processes_[i].name);
  }
  return ok_status();
}

/// The descriptor to give the process for its stdout or stderr; `keeper` owns it where it is ours to close.
Result<int> Job::route_stream(const JobProcess& process, bool is_error, UniqueFd& keeper) {
  if (process.output == JobProcess::Output::kInherit) return is_error ? STDERR_FILENO : STDOUT_FILENO;
  const std::string& path = is_error ? process.log_err : process.log_out;
  UniqueFd file;
  if (!path.empty()) {
    file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file) return system_error("cannot write " + path, errno);
  }
  if (process.output == JobProcess::Output::kFile) {
    keeper = std::move(file);
    return keeper.get();
  }
  FOLDCAST_ASSIGN(Pipe pipe, Pipe::create());
  keeper = std::move(pipe.write);
  Sink& sink = is_error ? standard_error_ : standard_output_;
  forwarders_.emplace_back(std::move(pipe.read), Forwarder::Route{process.prefix, &sink, std::move(file)});
  return keeper.get();
}

Status Job::start_process(std::size_t index) {
  const JobProcess& process = processes_[index];
  UniqueFd output, error;
  SpawnRequest request{.command = process.command, .environment = process.environment};
  request.namespaces = process.namespaces;
  if (process.namespaces) {
    char directory[PATH_MAX];
    if (::getcwd(directory, sizeof directory)) request.directory = directory;
  }
  FOLDCAST_ASSIGN(request.output, route_stream(process, false, output));
  FOLDCAST_ASSIGN(request.error, route_stream(process, true, error));
  request.cpu = process.cpu;
  if (process.keeps_input && !::isatty(STDIN_FILENO)) request.input = STDIN_FILENO;
  FOLDCAST_ASSIGN(pid_t pid, spawn(request));
  guardian_.add(pid);
  pids_.push_back(pid);
  ++running_;
  return ok_status();
}

JobOutcome Job::run() {
  while (!finished()) {
    wait_for_events();
    advance();
  }
  return outcome_;
}

bool Job::finished() const {
  if (phase_ != Phase::kDraining) return false;
  for (const Forwarder& forwarder : forwarders_) {
    if (!forwarder.ended()) return false;
  }
  return standard_output_.empty() && standard_error_.empty();
}

void Job::wait_for_events() {
  std::vector<pollfd> entries{{signals_.fd(), POLLIN, 0}};
  std::vector<Forwarder*> readers;
  for (Forwarder& forwarder : forwarders_) {
    if (!forwarder.wants_to_read()) continue;
    entries.push_back({forwarder.fd(), POLLIN, 0});
    readers.push_back(&forwarder);
  }
  std::vector<Sink*> writers;
  for (Sink* sink : {&standard_output_, &standard_error_}) {
    if (sink->empty()) continue;
    entries.push_back({sink->fd(), POLLOUT, 0});
    writers.push_back(sink);
  }
  if (::poll(entries.data(), entries.size(), next_ ? next_->poll_timeout() : -1) <= 0) return;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (entries[1 + i].revents) readers[i]->read_some();
  }
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (entries[1 + readers.size() + i].revents) writers[i]->write_some();
  }
  if (entries[0].revents) serve_signals();
}

void Job::enter(Phase phase, std::chrono::nanoseconds time) {
  phase_ = phase;
  next_ = Deadline::after(time);
}

/// Moves on when everything has ended, our reader is gone, or the phase's time is over.
void Job::advance() {
  if (running_ == 0 && phase_ != Phase::kDraining) {
    kill_everything();
    // With nobody left to write, only the reader of our output can hold us up: it may, unless we are to end.
    reader_may_delay_ = phase_ == Phase::kRunning || phase_ == Phase::kNoticing;
    enter(Phase::kDraining, kDrainTime);
    return;
  }
  if (standard_output_.broken() && phase_ == Phase::kRunning) {
    outcome_.exit_code = 128 + SIGPIPE;
    signal_all(SIGTERM);
    enter(Phase::kTerminating, kTerminationTime);
    return;
  }
  if (!next_ || !next_->passed()) return;
  switch (phase_) {
    case Phase::kRunning:
      outcome_.exit_code = kTimeLimitCode;
      say(fmt::format("the time limit of {} s passed; ending {} process{}",
                      std::chrono::duration<double>(*options_.time_limit).count(), running_,
                      running_ == 1 ? "" : "es"));
      [[fallthrough]];
    case Phase::kNoticing:
      signal_all(SIGTERM);
      enter(Phase::kTerminating, kTerminationTime);
      return;
    case Phase::kTerminating:
      signal_all(SIGKILL);
      enter(Phase::kKilled, kUnkillableTime);
      return;
    case Phase::kKilled:
      say(fmt::format("{} process(es) do not end even after SIGKILL (the kernel holds them); leaving them", running_));
      running_ = 0;
      return;
    case Phase::kDraining:
      for (Forwarder& forwarder : forwarders_) {
        if (!forwarder.ended()) forwarder.stop();
      }
      next_.reset();
      if (reader_may_delay_) return;
      standard_output_ = Sink(STDOUT_FILENO);
      standard_error_ = Sink(STDERR_FILENO);
      return;
  }
}

void Job::serve_signals() {
  while (auto signal = signals_.next()) {
    if (*signal == SIGCHLD) {
      reap();
    } else {
      interrupted(*signal);
    }
  }
}

void Job::interrupted(int signal) {
  bool again = phase_ == Phase::kTerminating || phase_ == Phase::kKilled || phase_ == Phase::kDraining;
  if (again) {
    signal_all(SIGKILL);
    reader_may_delay_ = false;
    enter(running_ == 0 ? Phase::kDraining : Phase::kKilled, running_ == 0 ? kDrainTime : kUnkillableTime);
    return;
  }
  if (outcome_.exit_code == 0) outcome_.exit_code = 128 + signal;
  say(fmt::format("{}; ending {} process{}", ::strsignal(signal), running_, running_ == 1 ? "" : "es"));
  signal_all(SIGTERM);
  enter(Phase::kTerminating, kTerminationTime);
}

void Job::reap() {
  siginfo_t info{};
  // WNOWAIT keeps the pid, and with it the group's number, reserved until the group's rest is dead.
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    pid_t pid = info.si_pid;
    if (pid == guardian_.pid()) {  // only our own end may end it
      ::waitpid(pid, nullptr, 0);
      continue;
    }
    auto index = std::find(pids_.begin(), pids_.end(), pid) - pids_.begin();
    bool ours = static_cast<std::size_t>(index) < pids_.size();
    if (ours) ::kill(-pid, SIGKILL);
    int wait_status = 0;
    ::waitpid(pid, &wait_status, 0);
    if (ours) process_ended(static_cast<std::size_t>(index), wait_status);
    info.si_pid = 0;
  }
}

void Job::process_ended(std::size_t index, int wait_status) {
  guardian_.remove(pids_[index]);
  pids_[index] = -1;
  --running_;
  if (wait_status == 0 || phase_ != Phase::kRunning) return;
  outcome_.exit_code = exit_code_of(wait_status);
  outcome_.failed = index;
  say(processes_[index].name + " " + describe_exit(wait_status) + (running_ > 0 ? "; ending the others" : ""));
  enter(Phase::kNoticing, kNoticeTime);
}

void Job::signal_all(int signal) {
  for (pid_t pid : pids_) {
    if (pid > 0) ::kill(-pid, signal);
  }
}

/// Also what the processes left behind under us as the reaper of orphans, daemons included.
void Job::kill_everything() {
  signal_all(SIGKILL);
  std::string children_file = fmt::format("/proc/self/task/{}/children", ::getpid());
  for (int round = 0; round < 100; ++round) {
    std::istringstream children(read_file(children_file).value_or(""));
    bool any = false;
    for (pid_t child; children >> child;) {
      if (child == guardian_.pid()) continue;
      any = true;
      end_now(child);
    }
    if (!any) break;
  }
  for (pid_t& pid : pids_) {
    if (pid <= 0) continue;
    end_now(pid);
    guardian_.remove(std::exchange(pid, -1));
  }
}

}  // namespace

Result<JobOutcome> run_job(const std::vector<JobProcess>& processes, const JobOptions& options) {
  FOLDCAST_ASSIGN(auto guardian, Guardian::create());
  FOLDCAST_ASSIGN(auto signals, JobSignals::create());
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  JobOutcome outcome;
  {
    Job job(processes, options, *signals, *guardian);
    FOLDCAST_RETURN_IF_ERROR(job.start());
    outcome = job.run();
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  return outcome;
}

std::string terminal_variable(bool forwarded) {
  return forwarded && ::isatty(STDERR_FILENO) ? "FOLDCAST_TERMINAL=1" : "FOLDCAST_TERMINAL=";
}

Result<std::uint16_t> free_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), generic, length) != 0 || ::getsockname(fd.get(), generic, &length) != 0) {
    return system_error("cannot find a free port on 127.0.0.1", errno);
  }
  return ntohs(address.sin_port);
}

std::string shell_quoted(std::span<const std::string> command) {
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`|&;<>()*?[]{}~#!") == std::string::npos;
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace foldcast::tools
