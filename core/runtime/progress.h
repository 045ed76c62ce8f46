#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/store.h"
#include "core/runtime/executor.h"
#include "core/runtime/gate.h"

namespace foldcast::runtime {

struct ProgressOptions {
  std::chrono::microseconds spin{0};        ///< how long to poll before sleeping; 0 where ranks share cores
  std::chrono::milliseconds timeout{5000};  ///< a call that sees nothing move for so long has failed
};

/// Drives an executor: spins briefly, then sleeps on the engines' descriptors and the control plane's, and ends calls
/// whose peers are gone or silent.
///
/// Several threads may wait for calls of one executor. Everything happens under the context's gate, whose lock the
/// caller holds; one of the waiting threads drives for all, the others are parked. Who drives leaves the gate while it
/// sleeps, and between passes when it is wanted. The optional thread of its own drives when nobody waits.
class Progress {
 public:
  static Result<std::unique_ptr<Progress>> create(Executor& executor, bootstrap::Store& store, ProgressOptions options);
  ~Progress();

  /// Blocks until the execution has finished; its status. A call in which nothing moves for `timeout` ends then, plus
  /// what it takes to ask the control plane who is to blame and to get the buffers back from the engines (about 2 s at
  /// most).
  Status wait(Execution& execution, Lock& lock);
  /// One pass without blocking, unless somebody else drives anyway.
  void poll(Execution& execution);
  /// Wakes who drives: something was started or ended behind its back.
  void nudge();
  /// Starts the thread. `gate` must outlive this.
  Status start_thread(Gate& gate);
  void stop_thread();
  /// What to do with a notice of another rank.
  void on_notice(std::function<void(const std::string&)> handler) { on_notice_ = std::move(handler); }

  /// Must be told of every engine that the executor has.
  Status watch(Engine& engine);
  void unwatch(Engine& engine);

 private:
  Progress(Executor& executor, bootstrap::Store& store, ProgressOptions options)
      : executor_(executor), store_(store), options_(options) {}
  using Clock = std::chrono::steady_clock;

  /// When anything last moved, as far as was looked at.
  Clock::time_point last_move();
  /// Until `done` says so.
  template <typename Done, typename Watch>
  void drive(Lock& lock, const Done& done, const Watch& watch);
  void serve(Gate& gate);
  void let_others_in(Lock& lock);
  /// What the control plane knows of a failed member of the call's communicator, as the reason why it ended.
  std::optional<Status> verdict(const Execution& execution);
  void check_peers();
  void check_deadline(Execution& execution, Clock::time_point since);
  /// Another rank that is stuck in the same call number with another signature, if there is one.
  std::optional<Status> mismatch(const Execution& execution);
  /// True when the control plane has news.
  bool sleep(Clock::time_point until, Lock& lock);
  Status settle(const Execution& execution, Lock& lock);

  Executor& executor_;
  bootstrap::Store& store_;
  ProgressOptions options_;
  UniqueFd epoll_;
  UniqueFd nudge_;
  std::uint64_t moves_seen_ = 0;
  Clock::time_point last_move_{};
  Clock::time_point last_poll_{};
  Clock::time_point polled_since_{};
  std::function<void(const std::string&)> on_notice_;

  // Of threads, under the gate.
  std::condition_variable_any turn_;
  bool driven_ = false;  ///< somebody drives
  bool asleep_ = false;  ///< and is in epoll_wait
  int parked_ = 0;       ///< threads that wait for a call or to drive
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace foldcast::runtime
