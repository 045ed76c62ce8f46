#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/unique_fd.h"
#include "core/bootstrap/channel.h"
#include "offload/tree.h"

namespace foldcast::offload {

/// Connects to parents' control addresses without holding up the daemon: each attempt has a thread that ends with it,
/// and an attempt happens once per group, never on the data path.
class Connector {
 public:
  struct Outcome {
    std::uint32_t ticket = 0;
    Result<std::unique_ptr<bootstrap::Channel>> channel;
  };

  /// Attempts at a time; more groups than that forming at once is nothing a daemon serves well.
  static constexpr std::size_t kMaxAttempts = 256;

  static Result<std::unique_ptr<Connector>> create(bootstrap::ChannelOptions options);
  /// Waits for the attempts under way, about a second at most.
  ~Connector();

  /// Tries until `deadline`, also while nobody listens yet. The outcome comes from take() and carries `ticket`.
  Status connect(std::uint32_t ticket, const std::string& control, Deadline deadline);
  /// Ends the attempt, within about a second; its outcome may still come.
  void cancel(std::uint32_t ticket);
  std::vector<Outcome> take();
  /// Readable when take() has something.
  int descriptor() const { return bell_.get(); }

 private:
  struct Attempt {
    std::uint32_t ticket = 0;
    ControlAddress address;
    Deadline deadline;
    std::atomic<bool> stop{false}, over{false};
    std::thread thread{};
  };

  explicit Connector(bootstrap::ChannelOptions options) : options_(std::move(options)) {}
  Result<std::unique_ptr<bootstrap::Channel>> run(const Attempt& attempt) const;
  void report(Outcome outcome);
  void join_finished();

  const bootstrap::ChannelOptions options_;
  UniqueFd bell_;
  std::list<Attempt> attempts_;  ///< the list is the owner's; the flags are shared with the attempts' threads
  std::mutex mutex_;
  std::vector<Outcome> outcomes_;  ///< guarded by mutex_
};

}  // namespace foldcast::offload
