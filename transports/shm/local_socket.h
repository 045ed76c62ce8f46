#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::transports {

/// What one socket message carries: text or a plain struct's bytes, and descriptors, which the receiver then owns.
struct LocalMessage {
  std::string bytes;
  std::vector<UniqueFd> descriptors;
};

/// Sequenced-packet Unix sockets in the abstract namespace: message boundaries, descriptors, no name in a file system.
/// All are non-blocking and close on exec. Not thread-safe.
class LocalSocket {
 public:
  static constexpr std::size_t kMaxBytes = 4096;      ///< of one message
  static constexpr std::size_t kMaxDescriptors = 64;  ///< of one message

  LocalSocket() = default;
  explicit LocalSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  /// kUnavailable when the address is taken.
  static Result<LocalSocket> listen(const std::string& address);
  /// Nothing when nobody listens there (yet).
  static Result<std::optional<LocalSocket>> try_connect(const std::string& address);
  /// Nothing when nobody waits to be accepted.
  std::optional<LocalSocket> try_accept();

  /// Waits for room in the socket until `deadline`. kPeerFailed when the other side is gone.
  Status send(std::string_view bytes, std::span<const int> descriptors, Deadline deadline);
  /// Nothing when no message is here. kPeerFailed at the end of the stream.
  Result<std::optional<LocalMessage>> try_receive();

  /// True when the process at the other end runs as the same user as this one.
  bool is_same_user() const;
  int descriptor() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace foldcast::transports
