#pragma once

#include <sys/types.h>

#include <memory>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::tools {

/// A tiny process that outlives us by a moment: if we die without saying so (kill -9), it kills the process groups it
/// was told about, whose members the kernel's parent-death signal does not reach (children of a rank that is a shell).
class Guardian {
 public:
  static Result<std::unique_ptr<Guardian>> create();
  ~Guardian();  ///< an orderly end: kills nothing
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void add(pid_t group);
  void remove(pid_t group);
  pid_t pid() const { return pid_; }

 private:
  Guardian(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace foldcast::tools
