#pragma once

#include <sys/types.h>

#include <memory>
#include <thread>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/store.h"

namespace foldcast::bootstrap {

/// Serves the store of a job from a thread of rank 0's process. The thread owns everything but what is named here; rank
/// 0 itself is a client like the others, over a socketpair.
class StoreServer {
 public:
  /// Listens on options.port of all addresses and starts the thread.
  static Result<std::unique_ptr<StoreServer>> start(const StoreOptions& options);
  /// Blocks until every rank has said farewell or died, at most a few seconds: whoever leaves last must not find that
  /// the store is gone. In a forked child it does nothing: the thread is the parent's.
  ~StoreServer();

  /// Rank 0's end of its connection; once.
  UniqueFd take_local_end() { return std::move(local_end_); }

 private:
  StoreServer() = default;

  UniqueFd local_end_;
  UniqueFd stop_;  ///< an eventfd: rank 0 is leaving
  std::thread thread_;
  pid_t owner_ = 0;
};

}  // namespace foldcast::bootstrap
