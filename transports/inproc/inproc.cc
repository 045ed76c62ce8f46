#include "transports/inproc/inproc.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "transports/inproc/network.h"

namespace foldcast::transports {
namespace {

constexpr std::string_view kScheme = "inproc:";

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocNetwork> network, std::shared_ptr<Mailbox> mailbox,
                  const TransportOptions& options)
      : network_(std::move(network)),
        mailbox_(std::move(mailbox)),
        token_(options.token),
        matcher_(options.unexpected_bytes, peers_, completions_) {
    network_->add(identity_, mailbox_);
  }
  ~InprocTransport() override { network_->remove(identity_); }

  std::string_view name() const override { return "inproc"; }
  std::string address() const override {
    std::string address(kScheme);
    address.append(reinterpret_cast<const char*>(&identity_), sizeof identity_);
    return address;
  }
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override;
  void disconnect(std::int32_t peer) override;
  TransportCounters counters() const override;

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return mailbox_->descriptor(); }
  bool arm() override { return completions_.empty() && mailbox_->arm(); }
  void cancel(std::uint32_t communicator) override { matcher_.cancel(communicator); }

 private:
  Posted post_send(const EngineCall& call, std::uint64_t cookie);
  void receive(InprocMessage& message);
  void deliver(const MatchedReceive& receive, const std::byte* data, const Arrival& arrival);
  void fail(std::int32_t peer) {
    matcher_.fail_peer(peer, peer_failed(fmt::format("{} is gone: its transport was closed", peers_.name(peer))));
  }

  const Identity identity_ = random_identity();
  std::shared_ptr<InprocNetwork> network_;
  std::shared_ptr<Mailbox> mailbox_;
  std::uint64_t token_;
  PeerTable peers_;
  CompletionQueue completions_;
  Matcher matcher_;
  std::vector<std::shared_ptr<Mailbox>> routes_;  // by peer number; null until connected
  std::vector<InprocMessage> incoming_;
  TransportCounters counters_;
};

Result<std::int32_t> InprocTransport::connect(std::string_view address, std::string_view name) {
  Identity identity = 0;
  if (!address.starts_with(kScheme) || address.size() != kScheme.size() + sizeof identity) {
    return invalid_argument(fmt::format("the address given for {} is not one of an in-process transport", name));
  }
  std::memcpy(&identity, address.data() + kScheme.size(), sizeof identity);
  std::shared_ptr<Mailbox> mailbox = network_->find(identity);
  if (!mailbox) {
    return invalid_argument(fmt::format("the address given for {} is not on this in-process network", name));
  }
  std::int32_t peer = peers_.connect(identity, name);
  if (peer < 0) return resource_exhausted(fmt::format("no peer number is left for {}", name));
  routes_.resize(static_cast<std::size_t>(peers_.size()));
  routes_[static_cast<std::size_t>(peer)] = mailbox;
  if (mailbox->closed()) {
    // What it sent before it closed lies in our mailbox, ahead of its farewell.
    mailbox_->take(incoming_);
    for (InprocMessage& message : incoming_) receive(message);
    incoming_.clear();
    fail(peer);
  }
  return peer;
}

void InprocTransport::disconnect(std::int32_t peer) {
  if (!peers_.connected(peer)) return;
  matcher_.forget_peer(peer, aborted(fmt::format("{} was disconnected", peers_.name(peer))));
  peers_.disconnect(peer);
  routes_[static_cast<std::size_t>(peer)].reset();
}

TransportCounters InprocTransport::counters() const {
  TransportCounters counters = counters_;
  counters.dropped += matcher_.dropped();
  counters.unexpected = matcher_.unexpected();
  return counters;
}

Posted InprocTransport::post(const EngineCall& call, std::uint64_t cookie) {
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
    deliver(message->receive, message->payload.get(), message->arrival);
  }
  return Posted::kAccepted;
}

Posted InprocTransport::post_send(const EngineCall& call, std::uint64_t cookie) {
  if (matcher_.cancelled(call.key.communicator)) {
    completions_.push(cookie, aborted(fmt::format("communicator {} was cancelled", call.key.communicator)));
    return Posted::kAccepted;
  }
  if (const Status& failure = peers_.failure(call.peer); !failure.ok()) {
    completions_.push(cookie, failure);
    return Posted::kAccepted;
  }
  InprocMessage message{.from = identity_, .token = token_, .key = call.key, .signature = call.signature};
  message.payload.assign(call.input, call.input + call.bytes);
  switch (routes_[static_cast<std::size_t>(call.peer)]->put(std::move(message))) {
    case Mailbox::Put::kFull:
      return Posted::kRetry;
    case Mailbox::Put::kClosed:
      // Its farewell is on the way or here already; what it sent before must be matched first, so only this call fails.
      completions_.push(cookie,
                        peer_failed(fmt::format("{} is gone: its transport was closed", peers_.name(call.peer))));
      return Posted::kAccepted;
    case Mailbox::Put::kTaken:
      break;
  }
  ++counters_.messages_sent;
  counters_.bytes_sent += call.bytes;
  completions_.push(cookie);
  return Posted::kAccepted;
}

std::size_t InprocTransport::poll(std::span<Completion> out) {
  mailbox_->take(incoming_);
  for (InprocMessage& message : incoming_) receive(message);
  incoming_.clear();
  return completions_.pop(out);
}

void InprocTransport::receive(InprocMessage& message) {
  if (message.farewell) {
    // Of a peer that was never connected nothing is known and nothing is posted; connect() finds it closed.
    if (std::int32_t peer = peers_.find(message.from); peer >= 0) fail(peer);
    return;
  }
  std::int32_t peer = message.token == token_ ? peers_.find_or_add(message.from) : -1;
  if (peer < 0 || peers_.state(peer) == PeerTable::State::kDisconnected) {
    ++counters_.dropped;
    return;
  }
  Arrival arrival{peer, message.key, message.signature, message.payload.size()};
  Matcher::Outcome outcome = matcher_.arrive(arrival);
  if (outcome.verdict == Matcher::Verdict::kDeliver) {
    deliver(outcome.receive, message.payload.data(), arrival);
  } else if (outcome.verdict == Matcher::Verdict::kKeep) {
    auto* kept = new std::vector<std::byte>(std::move(message.payload));
    // The vector owns the bytes; the deleter gets it back as its context. An empty one has no data, but needs deleting.
    matcher_.keep(
        arrival,
        Payload(kept->empty() ? reinterpret_cast<std::byte*>(kept) : kept->data(),
                {.release = [](void* vector, std::byte*) { delete static_cast<std::vector<std::byte>*>(vector); },
                 .context = kept}));
  }
}

void InprocTransport::deliver(const MatchedReceive& receive, const std::byte* data, const Arrival& arrival) {
  if (arrival.bytes > 0) std::memcpy(receive.output, data, arrival.bytes);
  ++counters_.messages_received;
  counters_.bytes_received += arrival.bytes;
  completions_.push({receive.cookie, {}, arrival.bytes, arrival.signature});
}

}  // namespace

std::shared_ptr<InprocNetwork> make_inproc_network() { return std::make_shared<InprocNetwork>(); }

std::unique_ptr<Transport> make_inproc(std::shared_ptr<InprocNetwork> network, const TransportOptions& options) {
  auto mailbox = Mailbox::create();
  FOLDCAST_CHECK(mailbox.ok(), mailbox.status().to_string().c_str());
  return std::make_unique<InprocTransport>(std::move(network), std::move(*mailbox), options);
}

}  // namespace foldcast::transports
