// Connections of a UCX transport: making, losing and closing them, and what is in flight when that happens.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "transports/ucx/ucx_transport.h"

namespace foldcast::transports {
namespace {

/// How long the end of a transport, or of a communicator, waits for peers to do their part.
constexpr std::chrono::milliseconds kDrainTimeout{1000};
/// How long UCX has for what needs nobody else.
constexpr std::chrono::milliseconds kForceTimeout{500};
/// Rounds of progress in which UCX ends what was in flight on a closed link. It needs a few; this many means it forgot.
constexpr int kRoundsToEnd = 1000;
/// Rounds of one poll() that go into that: UCX does not make the descriptor readable for them.
constexpr int kRoundsPerPoll = 64;

}  // namespace

Result<std::unique_ptr<Transport>> UcxTransport::create(const UcxOptions& options) {
  FOLDCAST_ASSIGN(auto worker, UcxWorker::create(options.devices));
  FOLDCAST_ASSIGN(std::string worker_address, worker->address());
  std::unique_ptr<UcxTransport> transport(new UcxTransport(std::move(worker), options));
  transport->address_.assign(reinterpret_cast<const char*>(&transport->identity_), sizeof transport->identity_);
  transport->address_ += worker_address;
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kActiveMessage;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = on_message;
  handler.arg = transport.get();
  ucs_status_t status = ucp_worker_set_am_recv_handler(transport->worker_->get(), &handler);
  if (status != UCS_OK) return unavailable(fmt::format("UCX takes no active messages: {}", ucs_status_string(status)));
  return std::unique_ptr<Transport>(std::move(transport));
}

Result<std::unique_ptr<Transport>> make_ucx(const UcxOptions& options) { return UcxTransport::create(options); }

UcxTransport::UcxTransport(std::unique_ptr<UcxWorker> worker, const UcxOptions& options)
    : worker_(std::move(worker)), token_(options.token), matcher_(options.unexpected_bytes, peers_, completions_) {}

UcxTransport::~UcxTransport() {
  Status gone = aborted("the transport was closed");
  for (std::int32_t peer = 0; peer < peers_.size(); ++peer) matcher_.forget_peer(peer, gone);
  // What lies unread in a socket when it is closed makes the kernel reset the connection, and the peer lose our last
  // words; so read first.
  for (int i = 0; i < 64 && worker_->progress() != 0; ++i) continue;
  say_farewell();
  for (std::int32_t peer = 0; peer < peers_.size(); ++peer) close_link(peer);
  auto closed = [&] {
    reap_closed();
    return closing_.empty() && operations_.active() == 0;
  };
  if (!worker_->progress_until(Deadline::after(kForceTimeout), closed)) {
    for (Closing& closing : closing_) log().error("UCX does not close the connection to {}", peers_.name(closing.peer));
  }
}

// UCX's own flush waits for the peer to answer, which may be busy elsewhere. A last small message does with less: UCX
// takes it only once all before it is in the socket.
void UcxTransport::say_farewell() {
  for (std::int32_t peer = 0; peer < peers_.size(); ++peer) {
    if (link(peer) != nullptr && !peers_.failed(peer)) send_control(peer, WireKind::kFarewell, 0);
  }
  // Where nothing was sent, nothing can be lost, and the connection may not even be made yet.
  auto is_farewell = [&](const Operation& operation) {
    return operation.header.kind == WireKind::kFarewell && link(operation.peer) != nullptr &&
           link(operation.peer)->used;
  };
  auto said = [&] {
    bool all = true;
    operations_.for_each_active([&](Operation& operation) { all = all && !is_farewell(operation); });
    return all;
  };
  if (worker_->progress_until(Deadline::after(kDrainTimeout), said)) return;
  operations_.for_each_active([&](Operation& operation) {
    if (!is_farewell(operation)) return;
    log().warn("{} did not take within {} ms what was sent to it before this end closed; it may miss the last messages",
               peers_.name(operation.peer), kDrainTimeout.count());
  });
}

Result<std::int32_t> UcxTransport::connect(std::string_view address, std::string_view name) {
  Identity identity = 0;
  if (address.size() <= sizeof identity || address.size() > kMaxAddressBytes) {
    return invalid_argument(fmt::format("the address given for {} is not one of a UCX transport", name));
  }
  std::memcpy(&identity, address.data(), sizeof identity);
  std::int32_t peer = peers_.connect(identity, name);
  if (peer < 0) return resource_exhausted(fmt::format("no peer number is left for {}", name));
  links_.resize(static_cast<std::size_t>(peers_.size()));
  if (identity == identity_) {
    self_ = peer;
  } else if (link(peer) == nullptr && !peers_.failed(peer)) {
    if (Status status = open_link(peer, address.substr(sizeof identity)); !status.ok()) {
      peers_.disconnect(peer);
      return status;
    }
  }
  return peer;
}

Status UcxTransport::open_link(std::int32_t peer, std::string_view worker_address) {
  auto link = std::make_unique<Link>();
  link->owner = this;
  link->peer = peer;
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, link.get()};
  ucs_status_t status = ucp_ep_create(worker_->get(), &params, &link->endpoint);
  if (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_NO_DEVICE) {
    return unavailable(
        fmt::format("no network that UCX may use leads to {}: {}; compare the devices that are up on both "
                    "hosts, UCX_TLS and UCX_NET_DEVICES",
                    peers_.name(peer), ucs_status_string(status)));
  }
  if (status != UCS_OK) {
    fail(peer, ended(status));
    return {};
  }
  links_[static_cast<std::size_t>(peer)] = std::move(link);
  // A connection is made by the first message. Without one, the loss of a peer to which nothing is sent, only received
  // from, would not be noticed.
  send_control(peer, WireKind::kHello, 0);
  return {};
}

Status UcxTransport::gone(std::string_view reason) {
  return peer_failed(fmt::format("is gone: {}; its own log may say why", reason));
}

Status UcxTransport::ended(ucs_status_t status) {
  return gone(fmt::format("its connection ended ({})", ucs_status_string(status)));
}

void UcxTransport::on_error(void* link, ucp_ep_h, ucs_status_t status) {
  auto* failed = static_cast<Link*>(link);
  failed->owner->fail(failed->peer, ended(status));
}

void UcxTransport::fail(std::int32_t peer, Status why) {
  if (peers_.failed(peer)) return;
  matcher_.fail_peer(peer, std::move(why));
  failed_.push_back(peer);
}

void UcxTransport::disconnect(std::int32_t peer) {
  if (!matcher_.disconnect(peer)) return;
  if (peer == self_) {
    self_ = -1;
    return;
  }
  close_link(peer);
  worker_->progress_until(Deadline::after(kForceTimeout), [&] {
    reap_closed();
    return quiet(peer);
  });
}

void UcxTransport::close_link(std::int32_t peer) {
  if (link(peer) == nullptr) return;
  std::unique_ptr<Link> closed = std::move(links_[static_cast<std::size_t>(peer)]);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t request = ucp_ep_close_nbx(closed->endpoint, &param);
  if (!UCS_PTR_IS_PTR(request)) request = nullptr;
  closing_.push_back({peer, std::move(closed), request});
}

void UcxTransport::reap_closed() {
  for (std::int32_t peer : failed_) close_link(peer);
  failed_.clear();
  std::erase_if(closing_, [&](Closing& closing) {
    if (closing.request != nullptr) {
      if (ucp_request_check_status(closing.request) == UCS_INPROGRESS) return false;
      ucp_request_free(std::exchange(closing.request, nullptr));
    }
    // UCX ends what it had in flight in the rounds after this one.
    if (!quiet(closing.peer) && ++closing.rounds < kRoundsToEnd) return false;
    give_up_operations(closing.peer);
    return true;
  });
}

/// The link is closed, so UCX touches no buffer of these any more, whether it told us or not.
void UcxTransport::give_up_operations(std::int32_t peer) {
  operations_.for_each_active([&](Operation& operation) {
    if (operation.peer != peer || operation.completed) return;
    operation.completed = true;
    if (!operation.control) completions_.push(operation.cookie, why_ended(operation));
  });
}

Status UcxTransport::why_ended(const Operation& operation) const {
  std::uint32_t communicator = operation.header.key.communicator;
  if (matcher_.cancelled(communicator)) return aborted(fmt::format("communicator {} was cancelled", communicator));
  if (peers_.state(operation.peer) == PeerTable::State::kDisconnected) {
    return aborted(fmt::format("{} was disconnected", peers_.name(operation.peer)));
  }
  return peers_.failure(operation.peer);
}

bool UcxTransport::quiet(std::int32_t peer) {
  bool quiet = true;
  operations_.for_each_active([&](Operation& operation) {
    quiet = quiet && (operation.peer != peer || operation.completed || operation.control);
  });
  return quiet;
}

bool UcxTransport::idle(std::uint32_t communicator) {
  bool idle = true;
  operations_.for_each_active([&](Operation& operation) {
    idle = idle && (operation.control || operation.completed || operation.header.key.communicator != communicator);
  });
  return idle;
}

void UcxTransport::cancel(std::uint32_t communicator) {
  matcher_.cancel(communicator);
  std::vector<std::int32_t> busy;
  auto list_busy = [&] {
    busy.clear();
    operations_.for_each_active([&](Operation& operation) {
      if (operation.control || operation.completed || operation.header.key.communicator != communicator) return;
      if (std::find(busy.begin(), busy.end(), operation.peer) == busy.end()) busy.push_back(operation.peer);
    });
  };
  list_busy();
  if (busy.empty()) return;
  for (std::int32_t peer : busy) {
    if (link(peer) != nullptr && !peers_.failed(peer)) send_control(peer, WireKind::kCancel, communicator);
  }
  auto done = [&] {
    reap_closed();
    return idle(communicator);
  };
  if (worker_->progress_until(Deadline::after(kDrainTimeout), done)) return;
  list_busy();
  for (std::int32_t peer : busy) {
    fail(peer, peer_failed(fmt::format("neither finished nor gave up a transfer of cancelled communicator {} within {} "
                                       "ms; its connection was closed",
                                       communicator, kDrainTimeout.count())));
  }
  if (!worker_->progress_until(Deadline::after(kForceTimeout), done)) {
    log().error("UCX keeps a transfer of cancelled communicator {} after its connection was closed", communicator);
  }
}

std::size_t UcxTransport::poll(std::span<Completion> out) {
  // A look at the network is a system call or two: first hand out what is there, though not for ever.
  constexpr unsigned kMostPollsWithoutProgress = 4;
  if (completions_.empty() || ++polls_without_progress_ >= kMostPollsWithoutProgress) {
    polls_without_progress_ = 0;
    worker_->progress();
    for (int i = 0; i < kRoundsPerPoll && (!failed_.empty() || !closing_.empty()); ++i) {
      reap_closed();
      worker_->progress();
    }
  }
  return completions_.pop(out);
}

}  // namespace foldcast::transports
