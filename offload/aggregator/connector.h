#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/unique_fd.h"
#include "core/bootstrap/channel.h"

namespace foldcast::offload {

/// Connects to parents' control addresses without holding up the daemon: each attempt has a thread that ends with it,
/// and an attempt happens once per group, never on the data path.
class Connector {
 public:
  struct Outcome {
    std::uint32_t ticket = 0;
    Result<std::unique_ptr<bootstrap::Channel>> channel;
  };

  static Result<std::unique_ptr<Connector>> create(bootstrap::ChannelOptions options);
  /// Waits for the attempts under way, about a second at most.
  ~Connector();

  /// The outcome comes from take() and carries `ticket`.
  Status connect(std::uint32_t ticket, const std::string& control, Deadline deadline);
  std::vector<Outcome> take();
  /// Readable when take() has something.
  int descriptor() const { return bell_.get(); }

 private:
  struct Attempt {
    std::thread thread;
    std::atomic<bool> over{false};
  };

  explicit Connector(bootstrap::ChannelOptions options) : options_(std::move(options)) {}
  Result<std::unique_ptr<bootstrap::Channel>> attempt(const std::string& host, std::uint16_t port, Deadline deadline);
  void report(Outcome outcome);

  const bootstrap::ChannelOptions options_;
  UniqueFd bell_;
  std::atomic<bool> stop_{false};
  std::list<Attempt> attempts_;  ///< touched by the owner only, but for `over`
  std::mutex mutex_;
  std::vector<Outcome> outcomes_;  ///< guarded by mutex_
};

}  // namespace foldcast::offload
