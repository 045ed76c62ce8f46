#include "tools/lab/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "tools/lab/process.h"

namespace foldcast::tools {
namespace {

/// On the pipe: a group to watch, its negative to forget it, or this for an orderly end.
constexpr pid_t kFarewell = 0;

[[noreturn]] void watch(int pipe) {
  ::setsid();
  ::prctl(PR_SET_NAME, "foldcast-guard");
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  // Whoever reads our caller's output must see its end when the caller dies, not when we do.
  ::dup2(pipe, 0);
  ::close_range(1, ~0U, 0);
  std::set<pid_t> groups;
  pid_t message = 0;
  while (true) {
    ssize_t got = ::read(0, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof message) break;
    if (message == kFarewell) ::_exit(0);
    if (message > 0) groups.insert(message);
    if (message < 0) groups.erase(-message);
  }
  for (pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<Guardian>> Guardian::create() {
  FOLDCAST_ASSIGN(Pipe pipe, Pipe::create());
  pid_t pid = ::fork();
  if (pid < 0) return system_error("cannot create the guardian process", errno);
  if (pid == 0) {
    pipe.write.reset();
    watch(pipe.read.get());
  }
  return std::unique_ptr<Guardian>(new Guardian(pid, std::move(pipe.write)));
}

Guardian::~Guardian() {
  [[maybe_unused]] auto written = ::write(pipe_.get(), &kFarewell, sizeof kFarewell);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::add(pid_t group) { [[maybe_unused]] auto written = ::write(pipe_.get(), &group, sizeof group); }

void Guardian::remove(pid_t group) {
  pid_t message = -group;
  [[maybe_unused]] auto written = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace foldcast::tools
