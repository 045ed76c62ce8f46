#include "transports/peer_table.h"

#include <random>
#include <utility>

namespace foldcast::transports {
namespace {

// Only holders of the job's token become strangers, so this bounds a fault, not an attack.
constexpr std::size_t kMaxPeers = 1u << 20;

}  // namespace

Identity random_identity() {
  std::random_device device;
  Identity identity = 0;
  while (identity == 0) identity = static_cast<Identity>(device()) << 32 | device();
  return identity;
}

std::int32_t PeerTable::find(Identity identity) const {
  auto found = numbers_.find(identity);
  return found == numbers_.end() ? -1 : found->second;
}

std::int32_t PeerTable::find_or_add(Identity identity) {
  if (std::int32_t known = find(identity); known >= 0) return known;
  if (peers_.size() >= kMaxPeers) return -1;
  peers_.push_back({.identity = identity});
  numbers_.emplace(identity, size() - 1);
  return size() - 1;
}

std::int32_t PeerTable::connect(Identity identity, std::string_view name) {
  std::int32_t number = find_or_add(identity);
  if (number < 0) return number;
  Peer& peer = at(number);
  if (peer.state == State::kDisconnected) peer.failure = {};
  peer.state = State::kConnected;
  peer.name = name;
  return number;
}

void PeerTable::disconnect(std::int32_t peer) { at(peer).state = State::kDisconnected; }

bool PeerTable::fail(std::int32_t peer, Status why) {
  if (failed(peer)) return false;
  at(peer).failure = std::move(why);
  return true;
}

Status PeerTable::failure(std::int32_t peer) const {
  const Status& why = at(peer).failure;
  return why.ok() ? why : Status(why.code(), name(peer) + " " + why.message());
}

}  // namespace foldcast::transports
