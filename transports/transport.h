#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/engine.h"

namespace foldcast::transports {

/// What Transport::address() is at most.
inline constexpr std::size_t kMaxAddressBytes = 4096;

struct TransportCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload
  std::uint64_t dropped = 0;                         ///< for a cancelled communicator, with a wrong token, malformed
  std::uint64_t unexpected = 0;                      ///< arrived before their receive was posted
};

/// Bytes between two peers, as an Engine that takes kSend and kRecv.
///
/// A message carries its MessageKey, the Signature of the call, the job token and its sender's identity. It goes to the
/// posted receive with the same (peer, key); messages that come before their receive wait, bounded by
/// `unexpected_bytes` in all (beyond it the message is dropped and the receive, when posted, fails with
/// kResourceExhausted). A receive whose message has another signature, or more bytes than room, ends with kMismatch
/// naming the field and both values, and its buffer is untouched; so does every posted receive of the same (peer,
/// communicator, sequence) when a message with another signature arrives for a fragment or tag nobody posted. A
/// zero-byte message is a message. A send completes when its buffer may be reused. Peer failure: all outstanding calls
/// with that peer end with kPeerFailed naming it, later posts too.
///
/// Large messages may go from the sender's buffer straight into the receive's (rendezvous; from which size on is the
/// backend's affair). When such a transfer fails or is cancelled under way, the receive's buffer may be written in
/// part: after any other failure than kMismatch its contents are undefined. It is never written once the call has
/// completed.
class Transport : public Engine {
 public:
  /// What another transport of the same kind needs for connect(); opaque bytes, at most kMaxAddressBytes.
  virtual std::string address() const = 0;
  /// A peer number for `address`; the same number for the same peer. Does not wait for the peer: failures come later,
  /// as completions. Both sides must connect before messages of either are delivered; what comes earlier waits. `name`
  /// is what errors call it: "rank 3 (node3)".
  virtual Result<std::int32_t> connect(std::string_view address, std::string_view name) = 0;
  /// Forgets a peer; outstanding calls with it end with kAborted.
  virtual void disconnect(std::int32_t peer) = 0;
  virtual TransportCounters counters() const = 0;
};

/// Makes a transport for the job with this token.
using TransportFactory = std::function<Result<std::unique_ptr<Transport>>(std::uint64_t token)>;

/// What a process of a job talks over.
struct TransportFactories {
  TransportFactory network;  ///< between nodes, and towards aggregators
  TransportFactory node;     ///< among the ranks of one node, for what no node group does
  /// Between nodes, one for each rail, where messages are striped over several; empty: `network` does it all.
  std::vector<TransportFactory> rails = {};
};

struct TransportOptions {
  std::uint64_t token = 0;  ///< of the job: messages with another one are dropped and counted
  std::uint64_t unexpected_bytes = 64u << 20;
};

}  // namespace foldcast::transports
