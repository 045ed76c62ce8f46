#include "offload/client/data_plane.h"

#include <array>

namespace foldcast::offload {

std::uint32_t DataPlane::attach(Port& port) {
  ports_.emplace(next_port_, &port);
  return next_port_++;
}

void DataPlane::detach(std::uint32_t port) { ports_.erase(port); }

void DataPlane::poll(std::uint32_t self, std::chrono::steady_clock::time_point now) {
  std::array<Completion, 32> batch;
  // Bounded, so that a caller with other engines to serve gets control back.
  for (int round = 0; round < 8; ++round) {
    const std::size_t count = transport_->poll(batch);
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      const auto port = ports_.find(static_cast<std::uint32_t>(batch[i].cookie >> 32));
      if (port == ports_.end()) continue;
      port->second->on_completion(static_cast<std::uint32_t>(batch[i].cookie), batch[i], now);
    }
    for (auto& [number, port] : ports_) port->on_batch_end(number == self);
  }
}

}  // namespace foldcast::offload
