#include "core/schedule/algorithms/two_trees.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace foldcast::schedule {
namespace {

/// The parent's place in the in-order tree over places 1..n; none for the top.
std::optional<std::uint32_t> parent_place(std::uint32_t place, std::uint32_t n) {
  const std::uint32_t lowest = place & (0u - place);
  const std::uint32_t below = place - lowest;
  const bool hangs_on_below = (place & (lowest << 1)) != 0 || place + lowest > n;
  if (hangs_on_below) return below == 0 ? std::nullopt : std::optional(below);
  return place + lowest;
}

/// Between members and their places in one of the trees.
struct Places {
  std::uint32_t n;
  bool second_tree;
  bool mirrored() const { return n % 2 == 0; }
  std::uint32_t of(std::uint32_t member) const {
    if (!second_tree) return member + 1;
    return mirrored() ? n - member : (member + n - 1) % n + 1;
  }
  std::uint32_t member_at(std::uint32_t place) const {
    if (!second_tree) return place - 1;
    return mirrored() ? n - place : place % n;
  }
};

}  // namespace

TreeNeighbours::TreeNeighbours(std::uint32_t self, std::uint32_t n, bool second_tree) {
  const Places places{n, second_tree};
  const std::uint32_t place = places.of(self);
  if (const auto above = parent_place(place, n)) parent = places.member_at(*above);
  const auto add_child = [&](std::uint32_t other) {
    if (other < 1 || other > n || parent_place(other, n) != place) return;
    const std::uint32_t child = places.member_at(other);
    (child < self ? lower : higher).push_back(child);
  };
  // A child is a power of two below the lowest bit away, on either side.
  for (std::uint32_t away = (place & (0u - place)) / 2; away > 0; away /= 2) {
    add_child(place - away);
    add_child(place + away);
  }
  std::sort(lower.begin(), lower.end(), std::greater<>());
  std::sort(higher.begin(), higher.end());
}

std::uint32_t top_of_tree(std::uint32_t n, bool second_tree) {
  return Places{n, second_tree}.member_at(std::bit_floor(n));
}

}  // namespace foldcast::schedule
