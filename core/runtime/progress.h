#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/store.h"
#include "core/runtime/executor.h"

namespace foldcast::runtime {

struct ProgressOptions {
  std::chrono::microseconds spin{0};        ///< how long to poll before sleeping; 0 where ranks share cores
  std::chrono::milliseconds timeout{5000};  ///< a call that sees nothing move for so long has failed
};

/// Drives an executor: spins briefly, then sleeps on the engines' descriptors and the control plane's, and ends calls
/// whose peers are gone or silent. One owner thread, the executor's.
class Progress {
 public:
  static Result<std::unique_ptr<Progress>> create(Executor& executor, bootstrap::Store& store, ProgressOptions options);

  /// Blocks until the execution has finished; its status. Ends at the latest `timeout` after anything last moved.
  Status wait(Execution& execution);
  /// One pass without blocking.
  void poll(Execution& execution);

  /// Must be told of engines that come and go after create().
  Status watch(Engine& engine);
  void unwatch(Engine& engine);

 private:
  Progress(Executor& executor, bootstrap::Store& store, ProgressOptions options)
      : executor_(executor), store_(store), options_(options) {}
  void check_peers(Execution& execution);
  void check_deadline(Execution& execution, std::chrono::steady_clock::time_point since);
  void sleep(std::chrono::steady_clock::time_point until);
  Status settle(const Execution& execution);

  Executor& executor_;
  bootstrap::Store& store_;
  ProgressOptions options_;
  UniqueFd epoll_;
  bool store_has_news_ = false;
  std::chrono::steady_clock::time_point last_poll_{};
  std::chrono::steady_clock::time_point polled_since_{};
};

}  // namespace foldcast::runtime
