#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/matcher.h"
#include "transports/ucx/operation.h"
#include "transports/ucx/worker.h"

namespace foldcast::transports {

/// The one kind of active message that we use; WireHeader::kind tells them apart.
inline constexpr unsigned kActiveMessage = 0;

/// Small messages go eagerly and are copied once out of UCX's receive buffer; large ones by rendezvous, straight from
/// the sender's buffer into the posted one.
class UcxTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const UcxOptions& options);
  ~UcxTransport() override;

  std::string address() const override { return address_; }
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override;
  void disconnect(std::int32_t peer) override;
  TransportCounters counters() const override { return matcher_.counters(); }

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return worker_->descriptor(); }
  bool arm() override { return completions_.empty() && failed_.empty() && closing_.empty() && worker_->arm(); }
  /// May wait, at most a second or so, for a peer in the middle of a transfer to finish it; a peer that does not is
  /// given up, for there is no other way to be sure that it leaves the buffer alone.
  void cancel(std::uint32_t communicator) override;

 private:
  /// Our side of one connection; UCX's error handler gets its address.
  struct Link {
    UcxTransport* owner = nullptr;
    std::int32_t peer = -1;
    ucp_ep_h endpoint = nullptr;
    bool used = false;  ///< for more than control messages
  };

  UcxTransport(std::unique_ptr<UcxWorker> worker, const UcxOptions& options);

  // transfers.cc
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_length, void* data,
                                 std::size_t length, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* operation);
  static void on_received(void* request, ucs_status_t status, std::size_t length, void* operation);
  Posted post_send(const EngineCall& call, std::uint64_t cookie);
  void send_to_self(const EngineCall& call, std::uint64_t cookie);
  void start_send(Operation& operation, const std::byte* data);
  void send_control(std::int32_t peer, WireKind kind, std::uint32_t communicator);
  ucs_status_t receive(const WireHeader& header, void* data, bool rendezvous);
  void start_receive(const MatchedReceive& receive, const Arrival& arrival, void* descriptor);
  void finish(Operation& operation, ucs_status_t status);
  Payload hold_descriptor(void* descriptor);

  // links.cc
  static void on_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  Status open_link(std::int32_t peer, std::string_view worker_address);
  /// `why` as in PeerTable::fail(). Its link is closed once UCX's callback, if this is one, is over.
  void fail(std::int32_t peer, Status why);
  static Status gone(std::string_view reason);
  static Status ended(ucs_status_t status);
  void say_farewell();
  /// Starts to close it. In UCX's orderly way one waits for the peer without a way out, so it is the other one.
  void close_link(std::int32_t peer);
  void reap_closed();
  bool idle(std::uint32_t communicator);
  bool quiet(std::int32_t peer);
  void give_up_operations(std::int32_t peer);
  Status why_ended(const Operation& operation) const;
  Link* link(std::int32_t peer) const {
    auto index = static_cast<std::size_t>(peer);
    return index < links_.size() ? links_[index].get() : nullptr;
  }

  struct Closing {
    std::int32_t peer = -1;
    std::unique_ptr<Link> link;  // the error handler may still be called with it
    void* request = nullptr;
    int rounds = 0;
  };

  std::unique_ptr<UcxWorker> worker_;
  const Identity identity_ = random_identity();
  const std::uint64_t token_;
  std::string address_;
  PeerTable peers_;
  CompletionQueue completions_;
  Matcher matcher_;
  OperationPool operations_;
  std::vector<std::unique_ptr<Link>> links_;  // by peer number; null for strangers, ourselves and the closed
  std::vector<std::int32_t> failed_;          // whose links are to be closed once UCX's callback is over
  std::vector<Closing> closing_;
  std::int32_t self_ = -1;
  unsigned polls_without_progress_ = 0;
};

}  // namespace foldcast::transports
