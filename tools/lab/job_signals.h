#pragma once

#include <signal.h>

#include <memory>
#include <optional>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::tools {

/// SIGCHLD, SIGINT, SIGTERM and SIGHUP as a descriptor, for the life of this object; SIGPIPE is ignored meanwhile.
/// One at a time in a process without threads.
class JobSignals {
 public:
  static Result<std::unique_ptr<JobSignals>> create();
  ~JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  int fd() const { return fd_.get(); }
  /// The next pending signal; never blocks.
  std::optional<int> next();

 private:
  JobSignals() = default;

  UniqueFd fd_;
  sigset_t old_mask_{};
  struct sigaction old_pipe_ {};
};

}  // namespace foldcast::tools
