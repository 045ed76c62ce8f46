#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

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

  /// Blocks until the execution has finished; its status. A call in which nothing moves for `timeout` ends then, plus
  /// what it takes to ask the control plane who is to blame and to get the buffers back from the engines (about 2 s at
  /// most).
  Status wait(Execution& execution);
  /// One pass without blocking.
  void poll(Execution& execution);

  /// Must be told of every engine that the executor has.
  Status watch(Engine& engine);
  void unwatch(Engine& engine);

 private:
  Progress(Executor& executor, bootstrap::Store& store, ProgressOptions options)
      : executor_(executor), store_(store), options_(options) {}
  /// What the control plane knows of a failed rank, as the reason why a call ended.
  std::optional<Status> verdict(const Execution& execution);
  void check_peers(Execution& execution);
  void check_deadline(Execution& execution, std::chrono::steady_clock::time_point since);
  /// Another rank that is stuck in the same call number with another signature, if there is one.
  std::optional<Status> mismatch(const Execution& execution);
  /// True when the control plane has news.
  bool sleep(std::chrono::steady_clock::time_point until);
  Status settle(const Execution& execution);

  Executor& executor_;
  bootstrap::Store& store_;
  ProgressOptions options_;
  UniqueFd epoll_;
  std::chrono::steady_clock::time_point last_poll_{};
  std::chrono::steady_clock::time_point polled_since_{};
};

}  // namespace foldcast::runtime
