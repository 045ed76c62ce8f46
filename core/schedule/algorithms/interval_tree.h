#pragma once

#include <cstdint>
#include <vector>

namespace foldcast::schedule {

/// One member's place in a k-nomial tree whose every subtree is an interval of members, for any root.
///
/// The root of an interval cuts it into `radix` equal pieces. It keeps the one that it lies in and goes on there; each
/// other piece becomes a child's, whose first member is the child. So the tree is at most ceil(log_radix n) cuts deep,
/// what a subtree gathers is one stretch of memory, and what it reduces is in the members' order.
class IntervalTree {
 public:
  struct Subtree {
    std::uint32_t root = 0;
    std::uint32_t first = 0, last = 0;  ///< members [first, last)
    std::uint32_t size() const { return last - first; }
    bool has(std::uint32_t member) const { return first <= member && member < last; }
  };

  IntervalTree(std::uint32_t self, std::uint32_t members, std::uint32_t root, std::uint32_t radix = 2) {
    own_ = {root, 0, members};
    parent_ = root;
    while (own_.root != self) {
      const Subtree piece = piece_with(self, radix);
      if (!piece.has(own_.root)) parent_ = own_.root;
      own_ = {piece.has(own_.root) ? own_.root : piece.first, piece.first, piece.last};
    }
    for (Subtree left = own_; left.size() > 1;) {
      Subtree kept;
      std::vector<Subtree> higher;
      for (const Subtree& piece : pieces_of(left, radix)) {
        if (piece.has(self)) {
          kept = piece;
        } else if (piece.last <= self) {
          children_.push_back(piece);
        } else {
          higher.push_back(piece);
        }
      }
      children_.insert(children_.end(), higher.rbegin(), higher.rend());
      left = kept;
    }
  }

  bool is_root() const { return parent_ == own_.root; }
  std::uint32_t parent() const { return parent_; }  ///< of the root: itself
  const Subtree& own() const { return own_; }
  /// The largest first, and on each side of this member those farther off first: from the back on, each is next to what
  /// is behind it in the list and this member.
  const std::vector<Subtree>& children() const { return children_; }

 private:
  static Subtree piece(const Subtree& whole, std::uint32_t index, std::uint32_t radix) {
    const std::uint64_t size = whole.size();
    const auto first = static_cast<std::uint32_t>(whole.first + size * index / radix);
    return {first, first, static_cast<std::uint32_t>(whole.first + size * (index + 1) / radix)};
  }
  static std::vector<Subtree> pieces_of(const Subtree& whole, std::uint32_t radix) {
    std::vector<Subtree> pieces;
    for (std::uint32_t index = 0; index < radix; ++index) {
      if (const Subtree each = piece(whole, index, radix); each.size() > 0) pieces.push_back(each);
    }
    return pieces;
  }
  Subtree piece_with(std::uint32_t member, std::uint32_t radix) const {
    std::uint32_t index = 0;
    while (!piece(own_, index, radix).has(member)) ++index;
    return piece(own_, index, radix);
  }

  Subtree own_;
  std::uint32_t parent_ = 0;
  std::vector<Subtree> children_;
};

}  // namespace foldcast::schedule
