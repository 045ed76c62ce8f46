#include "transports/matcher.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace foldcast::transports {
namespace {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

std::uint64_t hash_of_call(std::int32_t peer, const MessageKey& key) {
  return mix(mix(static_cast<std::uint32_t>(peer), key.communicator), key.sequence);
}

std::uint64_t hash_of_message(std::int32_t peer, const MessageKey& key) {
  return mix(mix(hash_of_call(peer, key), key.fragment), key.tag);
}

Status cancelled_status(std::uint32_t communicator) {
  return aborted(fmt::format("communicator {} was cancelled", communicator));
}

}  // namespace

Payload copy_payload(const std::byte* data, std::uint64_t bytes) {
  auto* copy = static_cast<std::byte*>(std::malloc(bytes == 0 ? 1 : bytes));
  if (bytes > 0) std::memcpy(copy, data, bytes);
  return Payload(copy, {.release = [](void*, std::byte* memory) { std::free(memory); }});
}

std::string describe_difference(const MessageKey& key, std::string_view peer, const Signature& theirs,
                                const Signature& ours) {
  auto line = [&](std::string_view field, const auto& their, const auto& our) {
    return fmt::format(
        "call {} of communicator {} differs in {}: {} has {}, this rank has {}; all ranks must make the same call",
        key.sequence, key.communicator, field, peer, their, our);
  };
  if (theirs.kind != ours.kind) return line("kind", to_string(theirs.kind), to_string(ours.kind));
  if (theirs.dtype != ours.dtype) return line("dtype", to_string(theirs.dtype), to_string(ours.dtype));
  if (theirs.op != ours.op) return line("op", to_string(theirs.op), to_string(ours.op));
  if (theirs.count != ours.count) return line("count", theirs.count, ours.count);
  if (theirs.root != ours.root) return line("root", theirs.root, ours.root);
  return line("wire format", to_string(theirs.wire), to_string(ours.wire));
}

bool Matcher::refuse(const EngineCall& call, std::uint64_t cookie) {
  if (call.verb != Verb::kSend && call.verb != Verb::kRecv) {
    completions_.push(cookie, invalid_argument("a transport only sends and receives"));
  } else if (!peers_.connected(call.peer)) {
    completions_.push(cookie, invalid_argument(fmt::format("peer {} of the transport is not connected", call.peer)));
  } else if (call.verb == Verb::kSend && cancelled(call.key.communicator)) {
    completions_.push(cookie, cancelled_status(call.key.communicator));
  } else if (call.verb == Verb::kSend && peers_.failed(call.peer)) {
    completions_.push(cookie, peers_.failure(call.peer));
  } else {
    return false;
  }
  return true;
}

Matcher::Outcome Matcher::arrive(const Arrival& arrival, bool remote) {
  if (cancelled(arrival.key.communicator)) {
    ++counters_.dropped;
    return {};
  }
  std::uint32_t index = find_entry(arrival.peer, arrival.key);
  if (index != kNoNode && entries_[index].posted) {
    Entry receive = take(index);
    if (Status status = check(arrival, receive.signature, receive.bytes); !status.ok()) {
      completions_.push(receive.cookie, std::move(status));
      return {};
    }
    return {Verdict::kDeliver, {receive.cookie, receive.output}};
  }
  ++counters_.unexpected;
  fail_conflicting_receives(arrival);
  if (kept_bytes_ + kEntryBytes + (remote ? 0 : arrival.bytes) > limit_) {
    return {overflow(arrival), {}};
  }
  return {Verdict::kKeep, {}};
}

bool Matcher::take(const Arrival& arrival, const std::byte* data) {
  const Outcome outcome = arrive(arrival);
  if (outcome.verdict == Verdict::kDeliver) deliver(outcome.receive, arrival, data);
  // A copy of its own: it is smaller than what backends would lend.
  if (outcome.verdict == Verdict::kKeep) keep(arrival, copy_payload(data, arrival.bytes));
  return outcome.verdict != Verdict::kFlood;
}

void Matcher::keep(const Arrival& arrival, Payload payload, bool remote) {
  Entry entry;
  entry.peer = arrival.peer;
  entry.key = arrival.key;
  entry.signature = arrival.signature;
  entry.bytes = arrival.bytes;
  entry.payload = std::move(payload);
  entry.remote = remote;
  entry.reckoned = kEntryBytes + (remote ? 0 : arrival.bytes);
  insert(std::move(entry));
}

// The message is gone, but its receive must not wait for ever: what is left of it is a note that it came.
Matcher::Verdict Matcher::overflow(const Arrival& arrival) {
  ++counters_.dropped;
  if (overflowed_ >= kMaxOverflowed) return Verdict::kFlood;
  Entry entry;
  entry.peer = arrival.peer;
  entry.key = arrival.key;
  entry.signature = arrival.signature;
  entry.bytes = arrival.bytes;
  entry.lost = resource_exhausted(
      fmt::format("messages of {} that came before their receives exceed {} bytes; raise the limit or receive sooner",
                  peers_.name(arrival.peer), limit_));
  insert(std::move(entry));
  return Verdict::kDiscard;
}

Status Matcher::flooded() const {
  return resource_exhausted(
      fmt::format("sent far more than {} bytes before their receives; raise the limit or receive sooner", limit_));
}

std::optional<KeptMessage> Matcher::post(const EngineCall& call, std::uint64_t cookie) {
  if (cancelled(call.key.communicator)) {
    completions_.push(cookie, cancelled_status(call.key.communicator));
    return std::nullopt;
  }
  std::uint32_t index = find_entry(call.peer, call.key);
  if (index != kNoNode && !entries_[index].posted) {
    Entry message = take(index);
    Arrival arrival{message.peer, message.key, message.signature, message.bytes};
    Status status = message.lost.ok() ? check(arrival, call.signature, call.bytes) : message.lost;
    if (status.ok()) {
      return KeptMessage{arrival, std::move(message.payload), message.remote, {cookie, call.output}};
    }
    completions_.push(cookie, std::move(status));
    return std::nullopt;
  }
  if (peers_.failed(call.peer)) {
    completions_.push(cookie, peers_.failure(call.peer));
    return std::nullopt;
  }
  if (Status status = find_conflicting_message(call); !status.ok()) {
    completions_.push(cookie, std::move(status));
    return std::nullopt;
  }
  Entry entry;
  entry.posted = true;
  entry.peer = call.peer;
  entry.key = call.key;
  entry.signature = call.signature;
  entry.bytes = call.bytes;
  entry.cookie = cookie;
  entry.output = call.output;
  insert(std::move(entry));
  return std::nullopt;
}

void Matcher::deliver(const MatchedReceive& receive, const Arrival& arrival, const std::byte* data) {
  // A rank that sends to itself may do so within one buffer.
  if (arrival.bytes > 0) std::memmove(receive.output, data, arrival.bytes);
  complete(receive.cookie, arrival.bytes, arrival.signature);
}

void Matcher::complete(std::uint64_t cookie, std::uint64_t bytes, const Signature& signature) {
  ++counters_.messages_received;
  counters_.bytes_received += bytes;
  completions_.push({cookie, {}, bytes, signature});
}

Status Matcher::check(const Arrival& arrival, const Signature& expected, std::uint64_t room) const {
  const std::string& name = peers_.name(arrival.peer);
  if (!expected.is_any() && expected != arrival.signature) {
    return mismatch(describe_difference(arrival.key, name, arrival.signature, expected));
  }
  if (arrival.bytes > room) {
    return mismatch(
        fmt::format("call {} of communicator {} differs in bytes of a message: {} sent {}, this rank has room for {}; "
                    "all ranks must make the same call",
                    arrival.key.sequence, arrival.key.communicator, name, arrival.bytes, room));
  }
  return {};
}

void Matcher::fail_conflicting_receives(const Arrival& arrival) {
  std::uint32_t call = find_call(arrival.peer, arrival.key);
  if (call == kNoNode || !calls_[call].posted.conflicts_with(arrival.signature)) return;
  for (std::uint32_t i = calls_[call].head; i != kNoNode;) {
    Entry& entry = entries_[i];
    std::uint32_t next = entry.call_next;
    if (entry.posted && !entry.signature.is_any() && entry.signature != arrival.signature) {
      drop(i,
           mismatch(describe_difference(arrival.key, peers_.name(arrival.peer), arrival.signature, entry.signature)));
    }
    i = next;
  }
}

Status Matcher::find_conflicting_message(const EngineCall& posted) {
  if (posted.signature.is_any()) return {};
  std::uint32_t call = find_call(posted.peer, posted.key);
  if (call == kNoNode || !calls_[call].kept.conflicts_with(posted.signature)) return {};
  for (std::uint32_t i = calls_[call].head; i != kNoNode; i = entries_[i].call_next) {
    const Entry& entry = entries_[i];
    if (entry.posted || entry.signature == posted.signature) continue;
    return mismatch(describe_difference(posted.key, peers_.name(posted.peer), entry.signature, posted.signature));
  }
  return {};
}

void Matcher::cancel(std::uint32_t communicator) {
  cancelled_.insert(communicator);
  for (std::uint32_t i = 0; i < entries_.capacity(); ++i) {
    if (entries_.live(i) && entries_[i].key.communicator == communicator) drop(i, cancelled_status(communicator));
  }
}

void Matcher::withdraw(std::int32_t peer, std::uint32_t communicator, const Status& why) {
  for (std::uint32_t i = 0; i < entries_.capacity(); ++i) {
    if (!entries_.live(i)) continue;
    Entry& entry = entries_[i];
    if (entry.peer != peer || entry.key.communicator != communicator || entry.posted || !entry.remote) continue;
    entry.payload.reset();
    entry.lost = why;
  }
}

void Matcher::fail_peer(std::int32_t peer, Status why) {
  if (!peers_.fail(peer, std::move(why))) return;
  const Status status = peers_.failure(peer);
  for (std::uint32_t i = 0; i < entries_.capacity(); ++i) {
    if (!entries_.live(i) || entries_[i].peer != peer) continue;
    if (entries_[i].posted || entries_[i].remote) drop(i, status);
  }
}

void Matcher::forget_peer(std::int32_t peer, const Status& status) {
  for (std::uint32_t i = 0; i < entries_.capacity(); ++i) {
    if (entries_.live(i) && entries_[i].peer == peer) drop(i, status);
  }
}

bool Matcher::disconnect(std::int32_t peer) {
  if (!peers_.connected(peer)) return false;
  forget_peer(peer, aborted(fmt::format("{} was disconnected", peers_.name(peer))));
  peers_.disconnect(peer);
  return true;
}

std::uint32_t Matcher::find_entry(std::int32_t peer, const MessageKey& key) {
  return entries_.find(hash_of_message(peer, key),
                       [&](const Entry& entry) { return entry.peer == peer && entry.key == key; });
}

std::uint32_t Matcher::find_call(std::int32_t peer, const MessageKey& key) {
  return calls_.find(hash_of_call(peer, key), [&](const Call& call) {
    return call.peer == peer && call.communicator == key.communicator && call.sequence == key.sequence;
  });
}

void Matcher::insert(Entry entry) {
  std::uint32_t at = find_call(entry.peer, entry.key);
  if (at == kNoNode) {
    Call fresh;
    fresh.hash = hash_of_call(entry.peer, entry.key);
    fresh.peer = entry.peer;
    fresh.communicator = entry.key.communicator;
    fresh.sequence = entry.key.sequence;
    at = calls_.add(std::move(fresh));
  }
  Call& call = calls_[at];
  if (!entry.posted || !entry.signature.is_any()) {
    Side& side = entry.posted ? call.posted : call.kept;
    if (side.count == 0) side = {.count = 0, .mixed = false, .signature = entry.signature};
    side.mixed = side.mixed || side.signature != entry.signature;
    ++side.count;
  }
  kept_bytes_ += entry.reckoned;
  if (!entry.posted && !entry.lost.ok()) ++overflowed_;
  entry.hash = hash_of_message(entry.peer, entry.key);
  entry.call = at;
  entry.call_next = call.head;
  std::uint32_t index = entries_.add(std::move(entry));
  if (call.head != kNoNode) entries_[call.head].call_previous = index;
  call.head = index;
  ++call.entries;
}

Matcher::Entry Matcher::take(std::uint32_t index) {
  Entry entry = entries_.remove(index);
  Call& call = calls_[entry.call];
  (entry.call_previous == kNoNode ? call.head : entries_[entry.call_previous].call_next) = entry.call_next;
  if (entry.call_next != kNoNode) entries_[entry.call_next].call_previous = entry.call_previous;
  if (!entry.posted || !entry.signature.is_any()) --(entry.posted ? call.posted : call.kept).count;
  if (--call.entries == 0) calls_.remove(entry.call);
  kept_bytes_ -= entry.reckoned;
  if (!entry.posted && entry.reckoned == 0) --overflowed_;
  return entry;
}

void Matcher::drop(std::uint32_t index, const Status& status) {
  Entry entry = take(index);
  if (entry.posted) {
    completions_.push(entry.cookie, status);
  } else {
    ++counters_.dropped;
  }
}

}  // namespace foldcast::transports
