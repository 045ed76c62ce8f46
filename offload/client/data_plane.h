#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "transports/transport.h"

namespace foldcast::offload {

/// One process's transport to the aggregators of one job, shared by its groups: completions go to the group that
/// posted. Used by one thread, like everything that is an Engine.
class DataPlane {
 public:
  /// A group, as the plane sees it.
  class Port {
   public:
    virtual ~Port() = default;
    virtual void on_completion(std::uint32_t tag, Completion& completion,
                               std::chrono::steady_clock::time_point now) = 0;
    /// All completions that came at once have been delivered; `polling` says whether it is this port's own poll.
    virtual void on_batch_end(bool polling) = 0;
  };

  explicit DataPlane(std::unique_ptr<transports::Transport> transport) : transport_(std::move(transport)) {}

  /// Groups share its peers, which live as long as the plane. (A peer cannot be let go with its last group: cutting the
  /// connection would overtake the group's farewell on the control connection.)
  transports::Transport& transport() { return *transport_; }

  std::uint32_t attach(Port& port);
  /// Completions of the port that still come are dropped.
  void detach(std::uint32_t port);
  Posted post(const EngineCall& call, std::uint32_t port, std::uint32_t tag) {
    return transport_->post(call, std::uint64_t{port} << 32 | tag);
  }
  /// Polls the transport for everybody; `self` is who asks.
  void poll(std::uint32_t self, std::chrono::steady_clock::time_point now);

 private:
  std::unique_ptr<transports::Transport> transport_;
  std::unordered_map<std::uint32_t, Port*> ports_;
  std::uint32_t next_port_ = 1;
};

}  // namespace foldcast::offload
