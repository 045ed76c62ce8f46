#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "transports/matcher.h"
#include "transports/shm/local_socket.h"
#include "transports/shm/ring.h"
#include "transports/shm/shm.h"

namespace foldcast::transports {

/// See make_shm.
class ShmTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const ShmTransportOptions& options);
  ~ShmTransport() override;

  std::string address() const override;
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override;
  void disconnect(std::int32_t peer) override;
  TransportCounters counters() const override { return matcher_.counters(); }

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return epoll_.get(); }
  bool arm() override;
  void cancel(std::uint32_t communicator) override;

 private:
  /// A message for which there was no room, or word of a cancelled communicator.
  struct Pending {
    RecordKind kind = RecordKind::kMessage;
    EngineCall call;
    std::uint64_t cookie = 0;
  };
  /// A transfer that this side offered.
  struct Sending {
    bool open = false;  ///< the caller waits for its end
    std::uint64_t cookie = 0;
    std::uint32_t communicator = 0;
    const std::byte* input = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t through_ring = 0;  ///< bytes that went that way
  };
  /// A transfer that a posted receive takes.
  struct Receiving {
    MatchedReceive receive;
    Arrival arrival;
  };
  enum class Reach : std::uint8_t { kUnknown, kYes, kNo };

  /// What goes from here to a peer.
  struct Outgoing {
    LocalSocket socket;
    MappedRing ring;  ///< made with the first message
    RingWriter writer;
    std::deque<Pending> pending;
    std::array<Sending, RingMemory::kTransfers> sending;
    std::uint32_t busy = 0;  ///< a bit for each transfer that is not free
    Reach reach = Reach::kUnknown;
  };
  /// What comes from a peer.
  struct Incoming {
    LocalSocket socket;
    MappedRing ring;
    RingReader reader;
    std::array<Receiving, RingMemory::kTransfers> receiving;
    std::uint32_t busy = 0;  ///< a bit for each transfer under way
    Reach reach = Reach::kUnknown;
    bool trusted = false;  ///< it has the job's token
  };
  struct Link {
    ShmTransport* owner = nullptr;
    std::int32_t peer = -1;
    Outgoing out;
    Incoming in;
    bool ended = false;      ///< a socket is closed at the other side
    bool unsettled = false;  ///< something was stored that the peer may sleep for
  };

  explicit ShmTransport(const ShmTransportOptions& options);

  // links.cc
  Status start();
  Link& link(std::int32_t peer);
  Link* find_link(std::int32_t peer);
  Status open_ring(Link& link);
  void look_at_sockets();
  void accept_strangers();
  void greet_strangers();
  void hear(Link& link);
  void take_ring(Link& link, const UniqueFd& memfd);
  void fail(Link& link, Status why);
  void close(Link& link, const Status& why);
  void wake(Link& link);
  void signal(Link& link);
  void settle();
  void disarm();

  // transfers.cc
  bool progress();
  void send_to_self(const EngineCall& call, std::uint64_t cookie);
  bool send(Link& link, const Pending& message);
  bool send_pending(Link& link);
  bool receive_records(Link& link);
  void receive(Link& link, const Record& record);
  void start_receive(Link& link, const MatchedReceive& receive, const Arrival& arrival, Transfer& transfer);
  bool advance_sends(Link& link);
  bool advance_receives(Link& link);
  bool copy_piece(Link& link, Transfer& transfer, const Receiving& into);
  bool send_piece(Link& link, std::uint32_t index);
  void end_send(Link& link, std::uint32_t index, Status status, Deadline deadline = stop_deadline());
  void end_receive(Link& link, std::uint32_t index, Status status, Deadline deadline = stop_deadline());
  static void release(void* link, std::byte* transfer);
  void receive_part(Link& link, const Record& record);
  /// Keeps both sides from claiming more and waits for what is claimed; false when the peer does not finish.
  static bool stop(Transfer& transfer, std::uint64_t bytes, Deadline deadline);
  static Deadline stop_deadline() { return Deadline::after(std::chrono::seconds(1)); }

  const std::uint64_t token_;
  const bool cross_memory_;
  const Identity identity_ = random_identity();
  std::vector<std::unique_ptr<Link>> links_;  // by peer number; before the matcher, which holds on to their transfers
  PeerTable peers_;
  CompletionQueue completions_;
  Matcher matcher_;
  std::int32_t self_ = -1;
  UniqueFd epoll_;
  LocalSocket listener_;
  std::vector<LocalSocket> strangers_;
  std::vector<Link*> unsettled_;
  bool armed_ = false;
  bool woken_ = false;            ///< look at the sockets
  std::uint32_t passes_ = 0;      ///< since the last look at the sockets
  std::uint32_t deliveries_ = 0;  ///< since the last pass
};

}  // namespace foldcast::transports
