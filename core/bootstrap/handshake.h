#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/channel.h"

namespace foldcast::bootstrap {

// How two ends of a connection prove to each other that they have the same key.
//
//   message    := "FOLDCAST" version:u16 type:u8 keyed:u8 length:u16 body      (big-endian, length <= 320)
//   client     -> hello      nonce_c[32] service
//   server     -> challenge  nonce_s[32]
//   client     -> proof      mac("client")     (empty without a key)
//   server     -> welcome    mac("server")     (empty without a key)
//   either     -> refused    reason            (and closes)
//
//   mac(role)  := HMAC-SHA256(key, "foldcast channel" version role length(service) service nonce_c nonce_s)
//
// The client proves first, so that a stranger learns nothing about the key; the roles keep a proof from being
// reflected. `keyed` must be equal on both sides: neither can be talked down to a connection without proof. What
// follows the handshake is neither encrypted nor signed.

inline constexpr std::uint16_t kHandshakeVersion = 1;
inline constexpr std::size_t kMaxServiceBytes = 64;

using Nonce = std::array<unsigned char, 32>;

enum class HandshakeType : std::uint8_t { kHello = 1, kChallenge = 2, kProof = 3, kWelcome = 4, kRefused = 5 };

struct HandshakeMessage {
  std::uint16_t version = kHandshakeVersion;
  HandshakeType type = HandshakeType::kHello;
  bool keyed = false;
  std::string body;
};

std::string encode(const HandshakeMessage& message);

/// Collects one handshake message from a socket, never reading past its end.
class HandshakeReader {
 public:
  /// The message when it is complete, nothing when more must come. Never blocks. kPeerFailed when the peer closed,
  /// kUnavailable when what arrives is not this protocol.
  Result<std::optional<HandshakeMessage>> read(int fd);

 private:
  std::string bytes_;
};

/// The server's end, driven by readiness. Not thread-safe.
class ServerHandshake {
 public:
  enum class State { kUnderWay, kDone, kFailed };

  ServerHandshake(UniqueFd fd, std::string peer, const ChannelOptions& options, Deadline deadline);

  /// Reads and answers what is there; never blocks. Once it is done or failed it stays so.
  State advance();
  const std::string& peer() const { return peer_; }
  Deadline deadline() const { return deadline_; }
  int descriptor() const { return fd_.get(); }
  /// Why it failed; `is_stranger` says that nothing like our protocol was spoken.
  const std::string& reason() const { return reason_; }
  bool is_stranger() const { return is_stranger_; }
  UniqueFd release() { return std::move(fd_); }

 private:
  State take(const HandshakeMessage& message);
  State take_hello(const HandshakeMessage& message);
  State take_proof(const HandshakeMessage& message);
  State fail(std::string reason);
  /// Tells the peer `to_peer` before failing with `reason`.
  State refuse(std::string_view to_peer, std::string reason);

  UniqueFd fd_;
  std::string peer_;
  const ChannelOptions& options_;
  Deadline deadline_;
  HandshakeReader reader_;
  std::optional<Nonce> client_nonce_;
  Nonce server_nonce_{};
  State state_ = State::kUnderWay;
  bool is_stranger_ = true;
  std::string reason_;
};

/// The client's end on a connected non-blocking socket; blocks until `deadline`. kUnavailable is final (refused, or not
/// our protocol); kPeerFailed and kTimeout may go away on another try.
Status shake_hands_as_client(int fd, const ChannelOptions& options, Deadline deadline);

}  // namespace foldcast::bootstrap
