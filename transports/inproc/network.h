#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/base/unique_fd.h"
#include "transports/inproc/inproc.h"
#include "transports/matcher.h"

namespace foldcast::transports {

/// What travels between mailboxes: a message with a copy of its payload, or the news that its sender is gone.
struct InprocMessage {
  Identity from = 0;
  bool farewell = false;
  std::uint64_t token = 0;
  MessageKey key{};
  Signature signature{};
  Payload payload{};
  std::uint64_t bytes = 0;
};

/// The incoming side of one transport. Any thread puts; its owner takes and sleeps.
class Mailbox {
 public:
  static Result<std::shared_ptr<Mailbox>> create();

  enum class Put : std::uint8_t { kTaken, kFull, kClosed };
  /// A farewell is never kFull.
  Put put(InprocMessage message);
  /// Moves everything into `messages` (which must be empty) and stops the descriptor from being readable.
  void take(std::vector<InprocMessage>& messages);
  /// False when there is something to take; else the next put() makes descriptor() readable.
  bool arm();
  /// What comes later is refused.
  void close();
  bool closed();
  int descriptor() const { return event_.get(); }

  /// Payload that may lie in a mailbox. Beyond it senders are told to come again.
  static constexpr std::uint64_t kCapacity = 256u << 20;

  explicit Mailbox(UniqueFd event) : event_(std::move(event)) {}

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::vector<InprocMessage> messages_;
  std::uint64_t bytes_ = 0;
  std::atomic<bool> filled_{false};  // lets a busy owner look without the lock
  bool armed_ = false, rung_ = false, closed_ = false;
};

class InprocNetwork {
 public:
  void add(Identity identity, std::shared_ptr<Mailbox> mailbox);
  /// Closes the mailbox and tells all others.
  void remove(Identity identity);
  /// Null when no transport of that identity was ever here.
  std::shared_ptr<Mailbox> find(Identity identity);

 private:
  std::mutex mutex_;
  std::unordered_map<Identity, std::shared_ptr<Mailbox>> mailboxes_;
};

}  // namespace foldcast::transports
