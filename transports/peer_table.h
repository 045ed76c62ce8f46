#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"

namespace foldcast::transports {

/// A number that tells one transport of a job from every other; drawn at random when it is made.
using Identity = std::uint64_t;
Identity random_identity();

/// Peer numbers, and what is known of each. A peer whose messages come before our connect() has a number already, so
/// that they wait under it. One thread.
class PeerTable {
 public:
  enum class State : std::uint8_t {
    kStranger,      ///< has sent to us, we have not connected to it
    kConnected,     ///< until it is disconnected; it may have failed
    kDisconnected,  ///< its messages are dropped until it is connected again
  };

  /// The number of `identity`, or -1 when it is unknown.
  std::int32_t find(Identity identity) const;
  /// The number of `identity`, new (a stranger) if need be; -1 when there are too many.
  std::int32_t find_or_add(Identity identity);
  /// As find_or_add, and makes it a connected peer that has not failed (a failure learnt of a stranger stays).
  std::int32_t connect(Identity identity, std::string_view name);
  void disconnect(std::int32_t peer);
  /// `why` goes on from the peer's name: "is gone: ...". The first failure stays. False when the peer had failed
  /// before.
  bool fail(std::int32_t peer, Status why);

  std::int32_t size() const { return static_cast<std::int32_t>(peers_.size()); }
  bool contains(std::int32_t peer) const { return peer >= 0 && peer < size(); }
  State state(std::int32_t peer) const { return at(peer).state; }
  bool connected(std::int32_t peer) const { return contains(peer) && at(peer).state == State::kConnected; }
  /// What errors call it; "an unconnected peer" for a stranger.
  const std::string& name(std::int32_t peer) const { return at(peer).name; }
  bool failed(std::int32_t peer) const { return !at(peer).failure.ok(); }
  /// Why calls with it fail, with the name it has now; success while it is well.
  Status failure(std::int32_t peer) const;

 private:
  struct Peer {
    Identity identity = 0;
    State state = State::kStranger;
    std::string name = "an unconnected peer";
    Status failure{};  // without the name, which a stranger gets later
  };
  const Peer& at(std::int32_t peer) const { return peers_[static_cast<std::size_t>(peer)]; }
  Peer& at(std::int32_t peer) { return peers_[static_cast<std::size_t>(peer)]; }

  std::vector<Peer> peers_;
  std::unordered_map<Identity, std::int32_t> numbers_;
};

}  // namespace foldcast::transports
