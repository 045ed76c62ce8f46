#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/unique_fd.h"
#include "transports/completion_queue.h"
#include "transports/transport.h"

namespace foldcast::transports {

/// Several transports between the same peers, one for each interface ("rail"), as one: large messages are cut over the
/// rails in proportion to their speeds, small ones take the fastest.
///
/// Both ends cut alike, without asking: they have the same rails in the same order and were told the same speeds, and a
/// message that is cut is received with room for exactly its bytes, else with kMismatch. What fails on one rail fails
/// whole; where a message was cut, its communicator is then cancelled on all rails, since the other parts are of no
/// use.
class StripedTransport final : public Transport {
 public:
  static constexpr std::size_t kMostRails = 8;

  /// At least one. Until set_speeds() all messages take the first.
  static Result<std::unique_ptr<StripedTransport>> create(std::vector<std::unique_ptr<Transport>> rails);

  std::size_t size() const { return rails_.size(); }
  /// Bytes per microsecond of each rail, 0 for one that is not to be used (not all), and what a message costs besides
  /// its bytes: from these follows from which size on cutting is worth it. All peers must be told alike, when no
  /// message is on its way.
  void set_speeds(std::span<const double> bytes_per_us, double message_us);

  std::string address() const override;
  /// kMismatch where the peer has another number of rails.
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override;
  void disconnect(std::int32_t peer) override;
  TransportCounters counters() const override;

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return epoll_.get(); }
  bool arm() override;
  void cancel(std::uint32_t communicator) override;

 private:
  /// A caller's call, in parts.
  struct Whole {
    std::uint32_t communicator = 0;
    std::uint32_t parts = 0, left = 0;
    bool receives = false;
    std::array<std::uint64_t, kMostRails> room{};  ///< of each rail's part
    Completion result;
  };
  /// A part whose rail had no room in its queue.
  struct Postponed {
    std::size_t rail;
    EngineCall call;
    std::uint64_t cookie;
  };

  StripedTransport() = default;
  /// Where the part of rail `rail` ends in a message of `bytes`.
  std::uint64_t end_of_part(std::uint64_t bytes, std::size_t rail) const;
  void post_part(std::size_t rail, EngineCall call, std::uint64_t first, std::uint64_t last, std::uint64_t whole);
  void take(std::size_t rail, const Completion& part);
  void retry_postponed();

  struct Rail {
    std::unique_ptr<Transport> transport;
    std::uint32_t outstanding = 0;
  };
  std::vector<Rail> rails_;
  std::uint32_t passes_ = 0;
  UniqueFd epoll_;
  std::vector<std::vector<std::int32_t>> peers_;  ///< per peer, its number on each rail; a peer's own is the first's
  std::size_t fastest_ = 0;
  std::vector<double> shares_;  ///< what part of a large message the rails up to each carry together
  std::uint64_t cut_from_ = ~std::uint64_t{0};
  std::vector<Whole> wholes_;
  std::vector<std::uint64_t> free_;
  std::vector<Postponed> postponed_;
  std::vector<Completion> parts_;  ///< of one poll
  CompletionQueue completions_;
};

}  // namespace foldcast::transports
