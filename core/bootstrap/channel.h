#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"

namespace foldcast::bootstrap {

struct ChannelOptions {
  std::string
      key;  ///< both sides prove that they have it (HMAC-SHA256 over both nonces); empty: nobody proves anything
  std::string service;  ///< what is spoken, "store/1": a peer that speaks something else is refused by name
  std::uint32_t max_frame = 16u << 20;  ///< bytes; a longer announced frame ends the connection
};

/// One authenticated TCP connection that carries frames (a length, then that many bytes). Not thread-safe.
/// End of stream and resets are kPeerFailed; a refused handshake is kUnavailable with the peer's reason.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Resolves, connects (retrying while nobody listens yet) and shakes hands, blocking until `deadline`.
  static Result<std::unique_ptr<Channel>> connect(const std::string& host, std::uint16_t port,
                                                  const ChannelOptions& options, Deadline deadline);

  /// Queues a frame and writes what the socket takes now. Never blocks. kResourceExhausted when over 4 x max_frame
  /// wait.
  virtual Status send(std::string_view frame) = 0;
  /// Writes what is queued, until `deadline`.
  virtual Status flush(Deadline deadline) = 0;
  /// The next whole frame if it is here; also writes what is queued. Never blocks.
  virtual Result<std::optional<std::string>> try_receive() = 0;
  virtual Result<std::string> receive(Deadline deadline) = 0;
  /// Readable when something came since try_receive last answered nothing: frames that were read along with another
  /// one do not show, so call it until then before sleeping. Ask wants_write() for whether to poll for POLLOUT as well.
  virtual int descriptor() const = 0;
  virtual bool wants_write() const = 0;
  /// "10.0.0.3:41234".
  virtual const std::string& peer() const = 0;
};

/// Accepts channels. Strangers (port scans, other protocols, wrong keys) cost one bounded handshake and are counted.
class ChannelListener {
 public:
  virtual ~ChannelListener() = default;
  /// `host` empty: all addresses. A busy port is kUnavailable naming it.
  static Result<std::unique_ptr<ChannelListener>> listen(const std::string& host, std::uint16_t port,
                                                         const ChannelOptions& options);
  virtual std::uint16_t port() const = 0;
  /// Accepts and advances handshakes; returns the channels that are ready. Never blocks.
  virtual std::vector<std::unique_ptr<Channel>> poll() = 0;
  /// One epoll descriptor over the listener and the handshakes under way.
  virtual int descriptor() const = 0;
  virtual std::uint64_t rejected() const = 0;
};

}  // namespace foldcast::bootstrap
