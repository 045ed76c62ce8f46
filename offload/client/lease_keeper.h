#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "core/base/unique_fd.h"
#include "core/bootstrap/channel.h"
#include "offload/protocol/membership.h"

namespace foldcast::offload {

/// How a group learns, from another thread, that it has ended. Rings `bell` (an eventfd) once. The bell is also rung
/// for other news, and hushed by the owner; all of that is under one lock, so that no ring is hushed before what it
/// announces can be seen.
class Fate {
 public:
  static Result<std::shared_ptr<Fate>> create();

  void seal(const Status& why);
  /// May be asked without the lock: who has hushed the bell sees what it rang for.
  bool sealed() const { return sealed_.load(std::memory_order_acquire); }
  Status why() const;
  int bell() const { return bell_.get(); }
  void ring();
  void hush();

 private:
  Fate() = default;
  UniqueFd bell_;
  std::atomic<bool> sealed_{false};
  mutable std::mutex mutex_;
  Status why_;
};

/// One thread per provider that owns the control connections of its groups: an application may compute for minutes
/// between two calls, and neither its lease nor news of a lost group can wait for it.
/// Thread-safe, and nothing here waits for a connection but the destructor, which sends what is still to be said and
/// joins the thread, within about a second.
class LeaseKeeper {
 public:
  static Result<std::shared_ptr<LeaseKeeper>> create();
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  /// Takes a connection on which the group was granted; seals `fate` when it ends. Returns a ticket for release().
  std::uint64_t keep(std::unique_ptr<bootstrap::Channel> channel, Membership membership, std::shared_ptr<Fate> fate);
  /// Says `last_word`, then closes the connection. Does not wait.
  void release(std::uint64_t ticket, ControlFrame last_word);

 private:
  struct Lease {
    std::uint64_t ticket = 0;
    std::unique_ptr<bootstrap::Channel> channel;
    Membership membership;
    std::shared_ptr<Fate> fate;
    std::optional<ControlFrame> last_word;
  };

  LeaseKeeper() = default;
  void run();
  /// Never blocks. False: the lease is over and its connection is to be closed.
  static bool serve(Lease& lease);
  static void say_last_words(std::list<Lease>& leaving);
  void ring();

  UniqueFd bell_;
  std::mutex mutex_;
  std::list<Lease> leases_;  ///< guarded by mutex_, as are the next two
  std::uint64_t next_ticket_ = 1;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace foldcast::offload
