#include "tools/foldcast/perf_gnuplot.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <sstream>

#include "core/base/deadline.h"
#include "core/base/unique_fd.h"
#include "tools/system/file.h"
#include "tools/system/program.h"

namespace foldcast::tools {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

std::string first_words(int fd) {
  char text[2048];
  ssize_t length = ::pread(fd, text, sizeof text, 0);
  std::stringstream lines(std::string(text, length > 0 ? static_cast<std::size_t>(length) : 0));
  // It quotes the command and points at the place with a '^' before it says what is wrong.
  std::string line;
  for (std::string next; std::getline(lines, next);) {
    auto first = next.find_first_not_of(" \t");
    if (first == std::string::npos || next[first] == '^') continue;
    line = next.substr(first);
    if (next.find("line ") != std::string::npos) break;
  }
  return line.empty() ? "it said nothing" : line;
}

Result<int> wait_for(pid_t pid) {
  // By number: glibc 2.36 declares the wrapper without C linkage.
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  Deadline deadline = Deadline::after(kPatience);
  int status = 0;
  bool timed_out = false;
  if (fd) {
    pollfd exited{fd.get(), POLLIN, 0};
    int ready = 0;
    do ready = ::poll(&exited, 1, deadline.poll_timeout());
    while (ready < 0 && errno == EINTR);
    timed_out = ready == 0;
  }
  if (timed_out || !fd) ::kill(pid, SIGKILL);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (timed_out) return timeout("gnuplot had not finished after 30 s");
  return status;
}

}  // namespace

Status run_gnuplot(std::string_view script, int output) {
  std::string program = find_program("gnuplot");
  if (program.empty()) return unavailable("gnuplot is not in PATH");
  FOLDCAST_ASSIGN(UniqueFd input, memory_file("foldcast-plot", script));
  FOLDCAST_ASSIGN(UniqueFd complaints, memory_file("foldcast-plot-errors", ""));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, complaints.get(), STDERR_FILENO);
  std::string name = "gnuplot";
  char* arguments[] = {name.data(), nullptr};
  pid_t pid = -1;
  int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return system_error(fmt::format("start {}", program), error);
  FOLDCAST_ASSIGN(int status, wait_for(pid));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok_status();
  return unavailable(fmt::format("gnuplot failed: {}", first_words(complaints.get())));
}

}  // namespace foldcast::tools
