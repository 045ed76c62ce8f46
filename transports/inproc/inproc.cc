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

  std::string address() const override {
    std::string address(kScheme);
    address.append(reinterpret_cast<const char*>(&identity_), sizeof identity_);
    return address;
  }
  Result<std::int32_t> connect(std::string_view address, std::string_view name) override;
  void disconnect(std::int32_t peer) override;
  TransportCounters counters() const override { return matcher_.counters(); }

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return mailbox_->descriptor(); }
  bool arm() override { return completions_.empty() && mailbox_->arm(); }
  void cancel(std::uint32_t communicator) override { matcher_.cancel(communicator); }

 private:
  Posted post_send(const EngineCall& call, std::uint64_t cookie);
  void receive(InprocMessage& message);
  static Status closed() { return peer_failed("is gone: its transport was closed"); }

  const Identity identity_ = random_identity();
  std::shared_ptr<InprocNetwork> network_;
  std::shared_ptr<Mailbox> mailbox_;
  std::uint64_t token_;
  PeerTable peers_;
  CompletionQueue completions_;
  Matcher matcher_;
  std::vector<std::shared_ptr<Mailbox>> routes_;  // by peer number; null until connected
  std::vector<InprocMessage> incoming_;
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
    matcher_.fail_peer(peer, closed());
  }
  return peer;
}

void InprocTransport::disconnect(std::int32_t peer) {
  if (matcher_.disconnect(peer)) routes_[static_cast<std::size_t>(peer)].reset();
}

Posted InprocTransport::post(const EngineCall& call, std::uint64_t cookie) {
  if (matcher_.refuse(call, cookie)) return Posted::kAccepted;
  if (call.verb == Verb::kSend) return post_send(call, cookie);
  if (auto message = matcher_.post(call, cookie)) {
    matcher_.deliver(message->receive, message->arrival, message->payload.get());
  }
  return Posted::kAccepted;
}

Posted InprocTransport::post_send(const EngineCall& call, std::uint64_t cookie) {
  InprocMessage message{.from = identity_, .token = token_, .key = call.key, .signature = call.signature};
  message.payload = copy_payload(call.input, call.bytes);
  message.bytes = call.bytes;
  switch (routes_[static_cast<std::size_t>(call.peer)]->put(std::move(message))) {
    case Mailbox::Put::kFull:
      return Posted::kRetry;
    case Mailbox::Put::kClosed:
      // Its farewell is on the way or here already; what it sent before must be matched first, so only this call fails.
      completions_.push(cookie, Status(closed().code(), peers_.name(call.peer) + " " + closed().message()));
      return Posted::kAccepted;
    case Mailbox::Put::kTaken:
      break;
  }
  ++matcher_.counters().messages_sent;
  matcher_.counters().bytes_sent += call.bytes;
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
    if (std::int32_t peer = peers_.find(message.from); peer >= 0) matcher_.fail_peer(peer, closed());
    return;
  }
  std::int32_t peer = message.token == token_ ? peers_.find_or_add(message.from) : -1;
  if (peer < 0 || peers_.state(peer) == PeerTable::State::kDisconnected) {
    ++matcher_.counters().dropped;
    return;
  }
  Arrival arrival{peer, message.key, message.signature, message.bytes};
  Matcher::Outcome outcome = matcher_.arrive(arrival);
  switch (outcome.verdict) {
    case Matcher::Verdict::kDeliver:
      return matcher_.deliver(outcome.receive, arrival, message.payload.get());
    case Matcher::Verdict::kKeep:
      return matcher_.keep(arrival, std::move(message.payload));
    case Matcher::Verdict::kFlood:
      return matcher_.fail_peer(peer, matcher_.flooded());
    case Matcher::Verdict::kDiscard:
      return;
  }
}

}  // namespace

std::shared_ptr<InprocNetwork> make_inproc_network() { return std::make_shared<InprocNetwork>(); }

std::unique_ptr<Transport> make_inproc(std::shared_ptr<InprocNetwork> network, const TransportOptions& options) {
  auto mailbox = Mailbox::create();
  FOLDCAST_CHECK(mailbox.ok(), mailbox.status().to_string().c_str());
  return std::make_unique<InprocTransport>(std::move(network), std::move(*mailbox), options);
}

}  // namespace foldcast::transports
