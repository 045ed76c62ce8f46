#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"

namespace foldcast::bootstrap {

struct StoreOptions {
  int rank = 0;
  int size = 1;
  std::string host;        ///< where rank 0 serves; rank 0 listens on this port, on all addresses
  std::uint16_t port = 0;  ///< 0 on rank 0 of a one-rank job: no listener is opened
  std::string key;         ///< job key for the HMAC handshake; empty: unauthenticated
  std::string name;        ///< of this rank for errors of others: "node3"
  std::chrono::milliseconds timeout{30000};
};

/// A rank that the store knows to be gone.
struct PeerFailure {
  int rank = -1;
  std::string name;
  std::string reason;
};

/// The job's control plane: a key-value store served by a thread of rank 0, one connection per rank. All calls are of
/// one owner thread, block at most until their deadline, and name what they wait for. A rank whose connection ends
/// without farewell is dead and every other rank is told at once (within 1 s). A forked child that does not exec shares
/// the connection: until it ends as well, its parent's death does not show. Names have 255 bytes at most.
class Store {
 public:
  /// Blocks until this rank is connected and authenticated, or timeout. Does not wait for the other ranks.
  static Result<std::unique_ptr<Store>> create(const StoreOptions& options);
  virtual ~Store() = default;  ///< says farewell

  Status set(std::string_view key, std::string_view value) { return set_by(key, value, Deadline::after(patience())); }
  virtual Status set_by(std::string_view key, std::string_view value, Deadline deadline) = 0;
  /// StoreOptions::timeout.
  virtual std::chrono::milliseconds patience() const = 0;
  /// Waits until somebody sets it.
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;

  /// Agreement: every rank of `members` calls it with the same `name` (used once) and gets everybody's value, in member
  /// order. The same answer on all: either all get all values or all that are alive get an error, which names the ranks
  /// that did not come or died. Exchange, barrier and vote are all this.
  virtual Result<std::vector<std::string>> gather(std::string_view name, std::span<const int> members,
                                                  std::string_view value, Deadline deadline) = 0;

  /// As gather(), but members that failed or left are no reason to fail: their values are missing. Decided once no
  /// other member is left to wait for.
  virtual Result<std::vector<std::optional<std::string>>> gather_alive(std::string_view name,
                                                                       std::span<const int> members,
                                                                       std::string_view value, Deadline deadline) = 0;

  /// Tells all other ranks, which find it in their take_notices(). Does not wait.
  virtual Status publish(std::string_view text) = 0;
  virtual std::vector<std::string> take_notices() = 0;

  /// Readable when news of a failed rank or a notice may be there; -1 in a one-rank job.
  virtual int descriptor() const = 0;
  /// The ranks known to have failed, in the order in which they did. Never blocks.
  virtual const std::vector<PeerFailure>& failures() = 0;
  /// The first of them, if any.
  std::optional<PeerFailure> failed_peer() {
    const auto& all = failures();
    return all.empty() ? std::nullopt : std::optional(all.front());
  }
};

}  // namespace foldcast::bootstrap
