#include "tools/lab/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fmt/format.h"
#include "tools/lab/forward.h"
#include "tools/lab/job_signals.h"
#include "tools/lab/network.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

constexpr auto kSetupTime = std::chrono::seconds(60);
constexpr auto kReadyTime = std::chrono::seconds(10);
constexpr auto kTerminationTime = std::chrono::milliseconds(2000);
constexpr std::string_view kReadyLine = "foldcastd: listening on ";
constexpr std::string_view kLog = "supervisor.log";

/// One foldcastd: its stdout is ours to read, for the line that says it is ready, and goes into its log.
struct Aggregator {
  std::string name;
  pid_t pid = -1;  ///< -1: ended
  UniqueFd output;
  std::string seen = {};  ///< of its output until it was ready
  bool ready = false;
};

class Supervisor {
 public:
  Supervisor(const LabSpec& spec, const StateDirectory& directory, const std::string& aggregator_program)
      : directory_(directory), program_(aggregator_program), layout_(LabLayout::of(spec)) {
    state_.spec = spec;
  }

  Status set_up();
  void serve();

 private:
  Status make_hosts();
  Status start_aggregators();
  Status start_aggregator(const LabHost& host);
  void restart_ended();
  Status wait_for_aggregators();
  bool wants_aggregator(std::size_t index) const;

  void wait_for_events(Deadline deadline);
  void read_output(Aggregator& aggregator);
  void reap();
  void end_aggregators();

  const StateDirectory& directory_;
  const std::string& program_;
  LabLayout layout_;
  LabState state_;
  std::unique_ptr<JobSignals> signals_;
  std::vector<Aggregator> aggregators_;
  bool ending_ = false;
};

Status Supervisor::set_up() {
  FOLDCAST_ASSIGN(signals_, JobSignals::create());
  FOLDCAST_ASSIGN(state_.user_namespace, gain_namespace_rights());
  state_.boot_id = current_boot_id();
  state_.supervisor = identify(::getpid()).value_or(ProcessIdentity{});
  FOLDCAST_RETURN_IF_ERROR(make_hosts());
  FOLDCAST_RETURN_IF_ERROR(start_aggregators());
  return directory_.save(state_);
}

Status Supervisor::make_hosts() {
  std::map<std::string, pid_t> holders;
  for (const auto* hosts : {&layout_.nodes, &layout_.switches}) {
    for (const LabHost& host : *hosts) {
      FOLDCAST_ASSIGN(pid_t pid, fork_holder(host.name));
      holders[host.name] = pid;
      state_.holders[host.name] = identify(pid).value_or(ProcessIdentity{});
    }
  }
  return build_network(state_.spec, holders, Deadline::after(kSetupTime));
}

bool Supervisor::wants_aggregator(std::size_t index) const {
  switch (state_.spec.aggregators) {
    case AggregatorPlacement::kRackAndSpine:
      return true;
    case AggregatorPlacement::kRack:
      return !layout_.is_spine(index);
    case AggregatorPlacement::kNone:
      break;
  }
  return false;
}

Status Supervisor::start_aggregators() {
  for (std::size_t i = 0; i < layout_.switches.size(); ++i) {
    if (!wants_aggregator(i)) continue;
    FOLDCAST_RETURN_IF_ERROR(start_aggregator(layout_.switches[i]));
  }
  return wait_for_aggregators();
}

Status Supervisor::start_aggregator(const LabHost& host) {
  static constexpr const char* kKinds[] = {"mnt", "net", "uts"};
  FOLDCAST_ASSIGN(Namespaces where, Namespaces::open(state_.holders.at(host.name).pid, kKinds));
  FOLDCAST_ASSIGN(Pipe pipe, Pipe::create());
  UniqueFd log(::open(directory_.file(host.name + ".log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) return system_error("cannot write " + directory_.file(host.name + ".log"), errno);
  std::vector<std::string> command = {program_, "--listen", fmt::format("{}:{}", host.address, kAggregatorPort),
                                      "--name", host.name};
  auto environment = environment_with({});
  SpawnRequest request{.command = command, .environment = environment, .namespaces = &where};
  request.output = pipe.write.get();
  request.error = log.get();
  FOLDCAST_ASSIGN(pid_t pid, spawn(request));
  state_.aggregators[host.name] = identify(pid).value_or(ProcessIdentity{pid, 0});
  std::erase_if(aggregators_, [&](const Aggregator& ended) { return ended.name == host.name; });
  aggregators_.push_back({.name = host.name, .pid = pid, .output = std::move(pipe.read)});
  return ok_status();
}

/// Each that has ended, where it was. Whether it came up shows by whether it listens.
void Supervisor::restart_ended() {
  for (const LabHost& host : layout_.switches) {
    const auto ended = std::find_if(aggregators_.begin(), aggregators_.end(),
                                    [&](const Aggregator& one) { return one.name == host.name && one.pid < 0; });
    if (ended == aggregators_.end()) continue;
    if (Status status = start_aggregator(host); !status.ok()) {
      fmt::print(stderr, "cannot start the aggregator of {} again: {}\n", host.name, status.to_string());
    }
  }
  if (Status status = directory_.save(state_); !status.ok()) fmt::print(stderr, "{}\n", status.to_string());
}

Status Supervisor::wait_for_aggregators() {
  Deadline deadline = Deadline::after(kReadyTime);
  for (const Aggregator& aggregator : aggregators_) {
    while (!aggregator.ready) {
      std::string log = directory_.file(aggregator.name + ".log");
      if (aggregator.pid < 0) {
        std::string reason = read_file(log).value_or("");
        return unavailable(fmt::format("the aggregator of {} did not start: {}", aggregator.name,
                                       reason.empty() ? "it says nothing" : reason.substr(0, reason.find('\n'))));
      }
      if (ending_) return aborted("told to end while the lab came up");
      if (deadline.passed()) return timeout("the aggregator of " + aggregator.name + " did not say that it listens");
      wait_for_events(deadline);
    }
  }
  return ok_status();
}

void Supervisor::wait_for_events(Deadline deadline) {
  std::vector<pollfd> entries{{signals_->fd(), POLLIN, 0}};
  std::vector<Aggregator*> readers;
  for (Aggregator& aggregator : aggregators_) {
    if (!aggregator.output) continue;
    entries.push_back({aggregator.output.get(), POLLIN, 0});
    readers.push_back(&aggregator);
  }
  bool forever = deadline.at() == Deadline::never().at();
  if (::poll(entries.data(), entries.size(), forever ? -1 : deadline.poll_timeout()) <= 0) return;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (entries[1 + i].revents) read_output(*readers[i]);
  }
  bool restart = false;
  while (auto signal = signals_->next()) {
    if (*signal == SIGCHLD) reap();
    if (*signal == SIGTERM || *signal == SIGINT) ending_ = true;
    restart |= *signal == SIGHUP;
  }
  if (restart && !ending_) restart_ended();
}

void Supervisor::read_output(Aggregator& aggregator) {
  char buffer[4096];
  ssize_t got = ::read(aggregator.output.get(), buffer, sizeof buffer);
  if (got <= 0) {
    aggregator.output.reset();
    return;
  }
  std::string_view bytes(buffer, static_cast<std::size_t>(got));
  UniqueFd log(::open(directory_.file(aggregator.name + ".log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (log) write_all(log.get(), bytes);
  if (aggregator.ready) return;
  aggregator.seen += bytes;
  auto line = aggregator.seen.find(kReadyLine);
  aggregator.ready = line != std::string::npos && aggregator.seen.find('\n', line) != std::string::npos;
}

void Supervisor::reap() {
  int wait_status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    for (Aggregator& aggregator : aggregators_) {
      if (aggregator.pid != pid) continue;
      aggregator.pid = -1;
      if (ending_) continue;
      // What `lab status` shows; the lab goes on, as a cluster does whose switch lost its aggregator.
      std::string path = directory_.file(aggregator.name + ".exit");
      UniqueFd note(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (note) write_all(note.get(), describe_exit(wait_status));
    }
  }
}

void Supervisor::serve() {
  while (!ending_) wait_for_events(Deadline::never());
  end_aggregators();
}

void Supervisor::end_aggregators() {
  Deadline deadline = Deadline::after(kTerminationTime);
  auto alive = [&] {
    bool any = false;
    for (const Aggregator& aggregator : aggregators_) any |= aggregator.pid > 0;
    return any;
  };
  for (const Aggregator& aggregator : aggregators_) {
    if (aggregator.pid > 0) ::kill(-aggregator.pid, SIGTERM);
  }
  while (alive() && !deadline.passed()) wait_for_events(deadline);
  for (const Aggregator& aggregator : aggregators_) {
    if (aggregator.pid > 0) ::kill(-aggregator.pid, SIGKILL);
  }
}

/// What it keeps of its caller's descriptors while the lab comes up.
struct Inheritance {
  UniqueFd answer;
  UniqueFd lock;
};

/// No terminal, no other descriptor and no directory of our caller.
Inheritance detach(const StateDirectory& directory, int answer, int lock) {
  ::setsid();
  ::prctl(PR_SET_NAME, "foldcast-lab");
  ::umask(022);
  int first = ::fcntl(answer, F_DUPFD_CLOEXEC, 10);
  int second = ::fcntl(lock, F_DUPFD_CLOEXEC, first + 1);
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  UniqueFd log(::open(directory.file(kLog).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  ::dup2(null.get(), 0);
  ::dup2(null.get(), 1);
  ::dup2(log ? log.get() : null.get(), 2);
  null.release();
  log.release();
  ::close_range(3, static_cast<unsigned>(first) - 1, 0);
  ::close_range(static_cast<unsigned>(first) + 1, static_cast<unsigned>(second) - 1, 0);
  ::close_range(static_cast<unsigned>(second) + 1, ~0U, 0);
  if (::chdir("/") != 0) ::_exit(1);
  return {UniqueFd(first), UniqueFd(second)};
}

[[noreturn]] void supervise(const LabSpec& spec, const StateDirectory& directory, const std::string& aggregator_program,
                            Inheritance inherited) {
  Supervisor supervisor(spec, directory, aggregator_program);
  Status status = supervisor.set_up();
  bool heard = write_all(inherited.answer.get(), status.ok() ? "ok" : status.message());
  inherited.answer.reset();
  if (!status.ok() || !heard) {
    // Our end takes the holders and aggregators along. Nobody hears when `lab up` was interrupted: then no lab either.
    directory.remove();
    ::_exit(1);
  }
  inherited.lock.reset();
  supervisor.serve();
  ::_exit(0);
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Status start_supervisor(const LabSpec& spec, const StateDirectory& directory, const std::string& aggregator_program,
                        int lock) {
  FOLDCAST_ASSIGN(Pipe pipe, Pipe::create());
  pid_t pid = ::fork();
  if (pid < 0) return system_error("cannot create the lab's supervisor", errno);
  if (pid == 0) supervise(spec, directory, aggregator_program, detach(directory, pipe.write.get(), lock));
  pipe.write.reset();
  Deadline deadline = Deadline::after(kSetupTime + kReadyTime);
  std::string answer;
  while (true) {
    pollfd entry{pipe.read.get(), POLLIN, 0};
    if (::poll(&entry, 1, deadline.poll_timeout()) < 0 && errno == EINTR) continue;
    char buffer[1024];
    ssize_t got = entry.revents ? ::read(pipe.read.get(), buffer, sizeof buffer) : -1;
    if (got > 0) answer.append(buffer, static_cast<std::size_t>(got));
    if (got == 0) break;
    if (got < 0 && deadline.passed()) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return timeout("the lab did not come up in time; the supervisor was ended");
    }
  }
  if (answer == "ok") return ok_status();
  ::waitpid(pid, nullptr, 0);
  if (!answer.empty()) return unavailable(answer);
  std::string last_words = last_line(read_file(directory.file(kLog)).value_or(""));
  return unavailable("the lab's supervisor died" + (last_words.empty() ? "" : ": " + last_words));
}

}  // namespace foldcast::tools
