#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/engine.h"
#include "transports/completion_queue.h"

namespace foldcast::offload {

/// What a member's window wants done on its data side.
struct ClientAction {
  enum class Kind : std::uint8_t { kReceive, kSend };
  Kind kind = Kind::kReceive;
  std::uint32_t slot = 0;
  std::uint32_t bytes = 0;
  std::uint64_t index = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Signature wire;
};

/// One member's calls on an active group, cut into fragments with at most W of them in flight: fragment i + W goes up
/// after the result of i is here. Does no I/O and reads no clock. Allocates when constructed, and for more unread
/// completions than ever before.
///
/// In place, a fragment's input may be overwritten as soon as its result is on the way here, since every contribution
/// was complete before it. So each fragment of the output holds its input or its result, except where the transport
/// failed in the middle of a rendezvous: such a fragment may be written in part (see transports/transport.h).
class ClientMachine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Calls that may be outstanding.
  static constexpr std::size_t kMaxCalls = 256;

  ClientMachine(std::uint32_t window, std::uint32_t fragment, std::chrono::milliseconds fragment_timeout,
                std::string aggregator);

  /// False: kMaxCalls are outstanding. A call that cannot be served (or comes after failure) completes with an error.
  bool post(const EngineCall& call, std::uint64_t cookie, Time now);
  void on_sent(std::uint32_t slot, Time now);
  void on_result(std::uint32_t slot, const Completion& result, Time now);
  /// Ends all outstanding calls, and later ones at once.
  void fail(const Status& why);
  /// Fails when a fragment has been under way for too long.
  void on_time(Time now);

  /// When the oldest fragment in flight will have been there too long; Time::max() with none.
  Time deadline() const;
  bool idle() const { return calls_used_ == 0; }
  const Status& failure() const { return failure_; }
  /// True when a call of `communicator` is outstanding.
  bool serves(std::uint32_t communicator) const;

  /// The pending actions, in order; the caller performs all and then calls clear_actions().
  std::span<const ClientAction> actions() const { return actions_; }
  void clear_actions() { actions_.clear(); }
  bool has_completions() const { return !completions_.empty(); }
  std::size_t take_completions(std::span<Completion> out) { return completions_.pop(out); }

 private:
  struct Call {
    std::uint64_t cookie = 0;
    std::uint64_t bytes = 0, offset = 0;  ///< offset: of the next fragment to go up
    std::uint32_t open = 0;               ///< sends and receives under way
    std::uint32_t communicator = 0;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    Signature wire;
  };
  struct Slot {
    std::uint32_t open = 0;  ///< of its send and its receive
    std::uint32_t bytes = 0;
    std::size_t call = 0;
    Time since;
  };

  void pump(Time now);
  void close_one(std::uint32_t slot, Time now);
  void retire();

  const std::uint32_t window_, fragment_;
  const std::chrono::milliseconds fragment_timeout_;
  const std::string aggregator_;
  Status failure_;
  std::vector<Call> calls_;  ///< a ring
  std::size_t calls_first_ = 0, calls_used_ = 0;
  std::size_t calls_issued_ = 0;  ///< of the oldest, those whose last fragment has gone up
  std::vector<Slot> slots_;
  std::uint64_t next_index_ = 0, oldest_index_ = 0;
  std::vector<ClientAction> actions_;
  transports::CompletionQueue completions_;
};

}  // namespace foldcast::offload
