#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace foldcast::transports {

inline constexpr std::uint32_t kNoNode = ~std::uint32_t{0};

/// A hash table over nodes that it owns in a pool, addressed by index. Nodes that compare equal keep the order in which
/// they were added; adding and removing take constant time and, once the pool has grown, no memory. A Node has members
/// `hash`, `chain_next`, `chain_previous`. References to nodes last until the next add().
template <typename Node>
class FifoTable {
 public:
  FifoTable() : chains_(kFirstChains) {}

  Node& operator[](std::uint32_t index) { return nodes_[index]; }
  std::size_t size() const { return size_; }
  /// Indices below this may be in use; `live(i)` tells.
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(nodes_.size()); }
  bool live(std::uint32_t index) const { return nodes_[index].chain_previous != kFree; }

  /// The oldest node of this hash for which `equal(node)`, or kNoNode.
  template <typename Equal>
  std::uint32_t find(std::uint64_t hash, Equal equal) {
    for (std::uint32_t i = chain(hash).head; i != kNoNode; i = nodes_[i].chain_next) {
      if (nodes_[i].hash == hash && equal(nodes_[i])) return i;
    }
    return kNoNode;
  }

  std::uint32_t add(Node node) {
    if (size_ >= chains_.size()) grow();
    std::uint32_t index = free_;
    if (index == kNoNode) {
      index = capacity();
      nodes_.push_back(std::move(node));
    } else {
      free_ = nodes_[index].chain_next;
      nodes_[index] = std::move(node);
    }
    append(index);
    ++size_;
    return index;
  }

  Node remove(std::uint32_t index) {
    Node& node = nodes_[index];
    Chain& of = chain(node.hash);
    (node.chain_previous == kNoNode ? of.head : nodes_[node.chain_previous].chain_next) = node.chain_next;
    (node.chain_next == kNoNode ? of.tail : nodes_[node.chain_next].chain_previous) = node.chain_previous;
    Node taken = std::move(node);
    node = Node{};
    node.chain_previous = kFree;
    node.chain_next = free_;
    free_ = index;
    --size_;
    return taken;
  }

 private:
  static constexpr std::size_t kFirstChains = 64;
  static constexpr std::uint32_t kFree = kNoNode - 1;
  struct Chain {
    std::uint32_t head = kNoNode, tail = kNoNode;
  };

  Chain& chain(std::uint64_t hash) { return chains_[hash & (chains_.size() - 1)]; }

  void append(std::uint32_t index) {
    Node& node = nodes_[index];
    Chain& of = chain(node.hash);
    node.chain_next = kNoNode;
    node.chain_previous = of.tail;
    (of.tail == kNoNode ? of.head : nodes_[of.tail].chain_next) = index;
    of.tail = index;
  }

  // Chain by chain, so that equal nodes keep their order.
  void grow() {
    std::vector<Chain> old(chains_.size() * 2);
    old.swap(chains_);
    for (const Chain& from : old) {
      for (std::uint32_t i = from.head; i != kNoNode;) append(std::exchange(i, nodes_[i].chain_next));
    }
  }

  std::vector<Node> nodes_;
  std::vector<Chain> chains_;
  std::uint32_t free_ = kNoNode;
  std::size_t size_ = 0;
};

}  // namespace foldcast::transports
