// Messages of a UCX transport: sending, receiving, eagerly and by rendezvous.

#include <fmt/format.h>

#include <utility>

#include "transports/ucx/ucx_transport.h"

namespace foldcast::transports {
namespace {

/// More than any plan keeps in flight; bounds what a sender without pause can make us hold.
constexpr std::size_t kMaxOperations = 1u << 16;

Arrival arrival_of(const WireHeader& header, std::int32_t peer) {
  return {peer, header.key, header.signature, header.bytes};
}

}  // namespace

Posted UcxTransport::post(const EngineCall& call, std::uint64_t cookie) {
  if (matcher_.refuse(call, cookie)) return Posted::kAccepted;
  if (call.verb == Verb::kSend) return post_send(call, cookie);
  if (auto message = matcher_.post(call, cookie)) {
    if (message->remote) {
      start_receive(message->receive, message->arrival, message->payload.release());
    } else {
      matcher_.deliver(message->receive, message->arrival, message->payload.get());
    }
  }
  return Posted::kAccepted;
}

Posted UcxTransport::post_send(const EngineCall& call, std::uint64_t cookie) {
  if (operations_.active() >= kMaxOperations) return Posted::kRetry;
  ++matcher_.counters().messages_sent;
  matcher_.counters().bytes_sent += call.bytes;
  if (call.peer == self_) {
    send_to_self(call, cookie);
    return Posted::kAccepted;
  }
  Operation& operation = operations_.take();
  operation.owner = this;
  operation.send = true;
  operation.peer = call.peer;
  operation.cookie = cookie;
  operation.header.token = token_;
  operation.header.sender = identity_;
  operation.header.bytes = call.bytes;
  operation.header.key = call.key;
  operation.header.signature = call.signature;
  link(call.peer)->used = true;
  start_send(operation, call.input);
  return Posted::kAccepted;
}

void UcxTransport::send_to_self(const EngineCall& call, std::uint64_t cookie) {
  if (!matcher_.take({self_, call.key, call.signature, call.bytes}, call.input)) fail(self_, matcher_.flooded());
  completions_.push(cookie);
}

void UcxTransport::send_control(std::int32_t peer, WireKind kind, std::uint32_t communicator) {
  Operation& operation = operations_.take();
  operation.owner = this;
  operation.send = true;
  operation.control = true;
  operation.peer = peer;
  operation.header.kind = kind;
  operation.header.token = token_;
  operation.header.sender = identity_;
  operation.header.key.communicator = communicator;
  start_send(operation, nullptr);
}

void UcxTransport::start_send(Operation& operation, const std::byte* data) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &operation;
  ucs_status_ptr_t request = ucp_am_send_nbx(link(operation.peer)->endpoint, kActiveMessage, &operation.header,
                                             sizeof operation.header, data, operation.header.bytes, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) finish(operation, UCS_PTR_STATUS(request));
}

void UcxTransport::on_sent(void* request, ucs_status_t status, void* operation) {
  auto* sent = static_cast<Operation*>(operation);
  sent->owner->finish(*sent, status);
  ucp_request_free(request);
}

void UcxTransport::on_received(void* request, ucs_status_t status, std::size_t, void* operation) {
  auto* received = static_cast<Operation*>(operation);
  received->owner->finish(*received, status);
  ucp_request_free(request);
}

// Everything UCX worked on ends here, once.
void UcxTransport::finish(Operation& operation, ucs_status_t status) {
  const WireHeader& header = operation.header;
  if (!operation.control && !operation.completed) {
    if (matcher_.cancelled(header.key.communicator)) {
      completions_.push(operation.cookie, why_ended(operation));
    } else if (status == UCS_OK && operation.send) {
      completions_.push(operation.cookie);
    } else if (status == UCS_OK) {
      matcher_.complete(operation.cookie, header.bytes, header.signature);
    } else {
      if (peers_.connected(operation.peer)) fail(operation.peer, ended(status));
      completions_.push(operation.cookie, why_ended(operation));
    }
  }
  operations_.give_back(operation);
}

ucs_status_t UcxTransport::on_message(void* self, const void* header, std::size_t header_length, void* data,
                                      std::size_t length, const ucp_am_recv_param_t* param) {
  auto* transport = static_cast<UcxTransport*>(self);
  auto parsed = parse_header(header, header_length, length);
  if (!parsed || parsed->token != transport->token_) {
    ++transport->matcher_.counters().dropped;
    return UCS_OK;
  }
  return transport->receive(*parsed, data, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

ucs_status_t UcxTransport::receive(const WireHeader& header, void* data, bool rendezvous) {
  std::int32_t peer = peers_.find_or_add(header.sender);
  if (peer < 0 || peer == self_ || peers_.state(peer) == PeerTable::State::kDisconnected) {
    ++matcher_.counters().dropped;
    return UCS_OK;
  }
  if (header.kind == WireKind::kHello) return UCS_OK;
  if (header.kind == WireKind::kFarewell) {
    fail(peer, gone("it closed its transport"));
    return UCS_OK;
  }
  if (header.kind == WireKind::kCancel) {
    matcher_.withdraw(peer, header.key.communicator,
                      aborted(fmt::format("{} cancelled communicator {}", peers_.name(peer), header.key.communicator)));
    return UCS_OK;
  }
  Arrival arrival = arrival_of(header, peer);
  Matcher::Outcome outcome = matcher_.arrive(arrival, rendezvous);
  switch (outcome.verdict) {
    case Matcher::Verdict::kFlood:
      fail(peer, matcher_.flooded());
      return UCS_OK;
    case Matcher::Verdict::kDiscard:
      return UCS_OK;  // ends the send on the other side as well
    case Matcher::Verdict::kDeliver:
      if (rendezvous) {
        start_receive(outcome.receive, arrival, data);
        return UCS_INPROGRESS;
      }
      matcher_.deliver(outcome.receive, arrival, static_cast<const std::byte*>(data));
      return UCS_OK;
    case Matcher::Verdict::kKeep:
      break;
  }
  if (rendezvous) {
    matcher_.keep(arrival, hold_descriptor(data), true);
    return UCS_INPROGRESS;
  }
  // UCX would lend some of its buffers, but those are as large as a segment whatever the message: a copy is smaller.
  matcher_.keep(arrival, copy_payload(static_cast<const std::byte*>(data), arrival.bytes));
  return UCS_OK;
}

Payload UcxTransport::hold_descriptor(void* descriptor) {
  return Payload(
      static_cast<std::byte*>(descriptor),
      {.release = [](void* worker, std::byte* held) { ucp_am_data_release(static_cast<ucp_worker_h>(worker), held); },
       .context = worker_->get()});
}

void UcxTransport::start_receive(const MatchedReceive& receive, const Arrival& arrival, void* descriptor) {
  Operation& operation = operations_.take();
  operation.owner = this;
  operation.peer = arrival.peer;
  operation.cookie = receive.cookie;
  operation.header.bytes = arrival.bytes;
  operation.header.key = arrival.key;
  operation.header.signature = arrival.signature;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_received;
  param.user_data = &operation;
  ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_->get(), descriptor, receive.output, arrival.bytes, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) finish(operation, UCS_PTR_STATUS(request));
}

}  // namespace foldcast::transports
