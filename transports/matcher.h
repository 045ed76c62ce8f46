#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "core/base/engine.h"
#include "transports/completion_queue.h"
#include "transports/fifo_table.h"
#include "transports/peer_table.h"
#include "transports/transport.h"

namespace foldcast::transports {

/// A message as its header describes it.
struct Arrival {
  std::int32_t peer = -1;
  MessageKey key;
  Signature signature;
  std::uint64_t bytes = 0;
};

/// How a backend gets back the memory, or the descriptor, of a message that waited.
struct PayloadRelease {
  void (*release)(void* context, std::byte* data) = nullptr;
  void* context = nullptr;
  void operator()(std::byte* data) const { release(context, data); }
};
using Payload = std::unique_ptr<std::byte, PayloadRelease>;
/// A copy in plain memory.
Payload copy_payload(const std::byte* data, std::uint64_t bytes);

/// A posted receive that was found for a message: the message fits and its signature is right. The backend owes it
/// one completion.
struct MatchedReceive {
  std::uint64_t cookie = 0;
  std::byte* output = nullptr;
};

/// A message that waited and the receive it waited for.
struct KeptMessage {
  Arrival arrival;
  Payload payload;
  bool remote = false;
  MatchedReceive receive;
};

/// The one place where messages meet receives: the part of the Transport contract, and of its counters, that does not
/// depend on how bytes move. Messages and receives of one (peer, key) match first-in-first-out. Failures go to the
/// completion queue. Holds no buffer of the caller's beyond what is posted. One thread.
class Matcher {
 public:
  /// Both references must outlive it.
  Matcher(std::uint64_t unexpected_bytes, PeerTable& peers, CompletionQueue& completions)
      : limit_(unexpected_bytes), peers_(peers), completions_(completions) {}

  enum class Verdict : std::uint8_t {
    kDeliver,  ///< copy the message to `receive` and complete it
    kKeep,     ///< nobody waits for it: call keep() with its payload, now
    kDiscard,  ///< nothing to do with it; the receives it concerns have been completed
    kFlood,    ///< as kDiscard, and its peer has sent too much too early: fail it, with flooded()
  };
  struct Outcome {
    Verdict verdict = Verdict::kDiscard;
    MatchedReceive receive;
  };

  /// Ends a call that is not one of a transport, whose peer is not connected or, for a send, that is of a cancelled
  /// communicator or to a failed peer (post() ends such receives). True when it did.
  bool refuse(const EngineCall& call, std::uint64_t cookie);
  /// A message has come. `remote`: its bytes are still with the sender, so keeping it costs no memory for them.
  Outcome arrive(const Arrival& arrival, bool remote = false);
  /// A message has come and is here whole, at `data`: matches and delivers it, or keeps a copy. False for kFlood.
  bool take(const Arrival& arrival, const std::byte* data);
  /// After Verdict::kKeep. `remote` as in arrive().
  void keep(const Arrival& arrival, Payload payload, bool remote = false);
  /// A receive is posted: the message that waits for it, which the backend delivers at once, or nothing (it waits, or
  /// its completion is in the queue).
  std::optional<KeptMessage> post(const EngineCall& call, std::uint64_t cookie);
  /// Copies a message that is here whole into its receive and completes it.
  void deliver(const MatchedReceive& receive, const Arrival& arrival, const std::byte* data);
  /// The message's bytes are where the receive wants them: completes it.
  void complete(std::uint64_t cookie, std::uint64_t bytes, const Signature& signature);

  /// Ends the communicator's receives with kAborted and drops its messages, those to come as well.
  void cancel(std::uint32_t communicator);
  bool cancelled(std::uint32_t communicator) const { return cancelled_.contains(communicator); }
  /// The peer will not send the bytes of what it announced for `communicator`.
  void withdraw(std::int32_t peer, std::uint32_t communicator, const Status& why);
  /// Ends the peer's receives, those to come as well; messages that had come whole are still delivered. `why` as in
  /// PeerTable::fail().
  void fail_peer(std::int32_t peer, Status why);
  Status flooded() const;
  /// Ends the peer's receives with `status` and drops its messages.
  void forget_peer(std::int32_t peer, const Status& status);
  /// Makes a connected peer a disconnected one and forgets it. False when it is not connected.
  bool disconnect(std::int32_t peer);

  /// Backends count what they send and drop; the rest is counted here.
  TransportCounters& counters() { return counters_; }
  const TransportCounters& counters() const { return counters_; }
  std::uint64_t kept_bytes() const { return kept_bytes_; }
  std::size_t waiting() const { return entries_.size(); }

  /// What an entry is reckoned at besides its payload, so that empty messages are bounded too.
  static constexpr std::uint64_t kEntryBytes = 256;
  /// Messages remembered as dropped for want of memory; a peer that goes beyond is failed.
  static constexpr std::size_t kMaxOverflowed = 1u << 16;

 private:
  struct Entry {  // a posted receive, or a message that waits
    std::uint64_t hash = 0;
    std::uint32_t chain_next = kNoNode, chain_previous = kNoNode;
    std::uint32_t call = kNoNode, call_next = kNoNode, call_previous = kNoNode;
    bool posted = false, remote = false;
    std::int32_t peer = -1;
    MessageKey key;
    Signature signature;
    std::uint64_t bytes = 0;  // room of a receive, size of a message
    std::uint64_t cookie = 0;
    std::byte* output = nullptr;
    Payload payload;
    std::uint64_t reckoned = 0;
    Status lost;  // why a message that came cannot be delivered
  };
  // All entries of one side of one call with one peer. Their signatures are the same unless somebody errs.
  struct Side {
    std::uint32_t count = 0;
    bool mixed = false;
    Signature signature;
    bool conflicts_with(const Signature& other) const { return count > 0 && (mixed || signature != other); }
  };
  struct Call {  // (peer, communicator, sequence): what must have one signature
    std::uint64_t hash = 0;
    std::uint32_t chain_next = kNoNode, chain_previous = kNoNode;
    std::int32_t peer = -1;
    std::uint32_t communicator = 0;
    std::uint64_t sequence = 0;
    std::uint32_t head = kNoNode;
    std::uint32_t entries = 0;
    Side posted, kept;
  };

  std::uint32_t find_entry(std::int32_t peer, const MessageKey& key);
  std::uint32_t find_call(std::int32_t peer, const MessageKey& key);
  void insert(Entry entry);
  Entry take(std::uint32_t index);
  void drop(std::uint32_t index, const Status& status);
  Status check(const Arrival& arrival, const Signature& expected, std::uint64_t room) const;
  void fail_conflicting_receives(const Arrival& arrival);
  Status find_conflicting_message(const EngineCall& call);
  Verdict overflow(const Arrival& arrival);

  std::uint64_t limit_;
  PeerTable& peers_;
  CompletionQueue& completions_;
  FifoTable<Entry> entries_;
  FifoTable<Call> calls_;
  std::unordered_set<std::uint32_t> cancelled_;
  TransportCounters counters_;
  std::uint64_t kept_bytes_ = 0;
  std::size_t overflowed_ = 0;
};

/// "call 7 of communicator 1 differs in count: rank 3 (node3) has 100, this rank has 50; ...": the first field in which
/// two different signatures differ.
std::string describe_difference(const MessageKey& key, std::string_view peer, const Signature& theirs,
                                const Signature& ours);

}  // namespace foldcast::transports
