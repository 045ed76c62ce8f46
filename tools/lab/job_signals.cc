#include "tools/lab/job_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace foldcast::tools {

Result<std::unique_ptr<JobSignals>> JobSignals::create() {
  std::unique_ptr<JobSignals> signals(new JobSignals);
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, &signals->old_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &signals->old_pipe_);
  signals->fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals->fd_) return system_error("cannot receive signals", errno);
  return signals;
}

JobSignals::~JobSignals() {
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::optional<int> JobSignals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace foldcast::tools
