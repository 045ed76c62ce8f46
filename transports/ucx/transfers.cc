#include <fmt/format.h>

#include <cstring>
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
  if (call.verb != Verb::kSend && call.verb != Verb::kRecv) {
    completions_.push(cookie, invalid_argument("a transport only sends and receives"));
    return Posted::kAccepted;
  }
  if (!peers_.connected(call.peer)) {
    completions_.push(cookie, invalid_argument(fmt::format("peer {} of the transport is not connected", call.peer)));
    return Posted::kAccepted;
  }
  if (call.verb == Verb::kSend) return post_send(call, cookie);
  if (auto message = matcher_.post(call, cookie)) {
    if (message->remote) {
      start_receive(message->receive, message->arrival, message->payload.release());
    } else {
      deliver(message->receive, message->arrival, message->payload.get());
    }
  }
  return Posted::kAccepted;
}

Posted UcxTransport::post_send(const EngineCall& call, std::uint64_t cookie) {
  if (operations_.active() >= kMaxOperations) return Posted::kRetry;
  if (matcher_.cancelled(call.key.communicator)) {
    completions_.push(cookie, aborted(fmt::format("communicator {} was cancelled", call.key.communicator)));
    return Posted::kAccepted;
  }
  if (const Status& failure = peers_.failure(call.peer); !failure.ok()) {
    completions_.push(cookie, failure);
    return Posted::kAccepted;
  }
  ++counters_.messages_sent;
  counters_.bytes_sent += call.bytes;
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
  Arrival arrival{self_, call.key, call.signature, call.bytes};
  Matcher::Outcome outcome = matcher_.arrive(arrival);
  if (outcome.verdict == Matcher::Verdict::kDeliver) deliver(outcome.receive, arrival, call.input);
  if (outcome.verdict == Matcher::Verdict::kKeep) {
    Payload copy = allocate_payload(call.bytes);
    if (call.bytes > 0) std::memcpy(copy.get(), call.input, call.bytes);
    matcher_.keep(arrival, std::move(copy));
  }
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
      ++counters_.messages_received;
      counters_.bytes_received += header.bytes;
      completions_.push({operation.cookie, {}, header.bytes, header.signature});
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
    ++transport->counters_.dropped;
    return UCS_OK;
  }
  return transport->receive(*parsed, data, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

ucs_status_t UcxTransport::receive(const WireHeader& header, void* data, bool rendezvous) {
  std::int32_t peer = peers_.find_or_add(header.sender);
  if (peer < 0 || peer == self_ || peers_.state(peer) == PeerTable::State::kDisconnected) {
    ++counters_.dropped;
    return UCS_OK;
  }
  if (header.kind == WireKind::kHello) return UCS_OK;
  if (header.kind == WireKind::kFarewell) {
    fail(peer, "it closed its transport");
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
    case Matcher::Verdict::kDiscard:
      return UCS_OK;  // ends the send on the other side as well
    case Matcher::Verdict::kDeliver:
      if (rendezvous) {
        start_receive(outcome.receive, arrival, data);
        return UCS_INPROGRESS;
      }
      deliver(outcome.receive, arrival, static_cast<const std::byte*>(data));
      return UCS_OK;
    case Matcher::Verdict::kKeep:
      break;
  }
  if (rendezvous) {
    matcher_.keep(arrival, hold_descriptor(data), true);
    return UCS_INPROGRESS;
  }
  // UCX would lend some of its buffers, but those are as large as a segment whatever the message: a copy is smaller.
  Payload copy = allocate_payload(arrival.bytes);
  if (arrival.bytes > 0) std::memcpy(copy.get(), data, arrival.bytes);
  matcher_.keep(arrival, std::move(copy));
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

void UcxTransport::deliver(const MatchedReceive& receive, const Arrival& arrival, const std::byte* data) {
  // A rank that sends to itself may do so within one buffer.
  if (arrival.bytes > 0) std::memmove(receive.output, data, arrival.bytes);
  ++counters_.messages_received;
  counters_.bytes_received += arrival.bytes;
  completions_.push({receive.cookie, {}, arrival.bytes, arrival.signature});
}

}  // namespace foldcast::transports
