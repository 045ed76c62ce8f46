#pragma once

#include <string>

#include "core/base/deadline.h"
#include "core/base/status.h"

namespace foldcast::bootstrap {

/// One rank's talk with its process manager in version 1 of the PMI wire protocol, as Hydra speaks it: one line of
/// key=value words each way. Specification: Flux RFC 13. The descriptor stays the caller's (and its MPI's: no finalize
/// is sent). Blocks until `deadline` at most.
class PmiClient {
 public:
  PmiClient(int fd, Deadline deadline) : fd_(fd), deadline_(deadline) {}

  /// Tells rank 0's `value` to all ranks: rank 0 publishes it under `key`, all meet in a barrier, all read it.
  /// All ranks of the job must call it.
  Result<std::string> publish_from_rank_0(int rank, const std::string& key, const std::string& value);

 private:
  /// Sends a line and returns the answer's line, which must be of command `expected`.
  Result<std::string> ask(const std::string& request, const std::string& expected);
  Result<std::string> read_line(const std::string& what);

  int fd_;
  Deadline deadline_;
};

}  // namespace foldcast::bootstrap
