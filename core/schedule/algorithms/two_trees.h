#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace foldcast::schedule {

/// One member's neighbours in one of two complementary binary trees over n members, as indices of members.
///
/// The first tree numbers the members 1..n (their *place*) and hangs each place on its in-order parent: odd places are
/// leaves, place v with lowest set bit b hangs on v - b or v + b, whichever is an odd multiple of 2b, or on v - b where
/// v + b > n. The second tree is the first one's mirror image when n is even (place n + 1 - v), which swaps odd and
/// even; when n is odd, it is the first one moved on by one place, around the end. So a member that is inner in one
/// tree is a leaf of the other.
///
/// P. Sanders, J. Speck, J. L. Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
/// Parallel Computing 35(12), 2009.
struct TreeNeighbours {
  std::optional<std::uint32_t> parent;       ///< none for the tree's top
  std::vector<std::uint32_t> lower, higher;  ///< children before and after this member, the nearest first

  TreeNeighbours(std::uint32_t self, std::uint32_t n, bool second_tree);
};

/// The member at the top of a tree.
std::uint32_t top_of_tree(std::uint32_t n, bool second_tree);

}  // namespace foldcast::schedule
