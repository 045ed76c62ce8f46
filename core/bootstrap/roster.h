#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace foldcast::bootstrap {

enum class RankState : std::uint8_t {
  kAbsent,   ///< has not joined yet
  kPresent,  ///< is connected
  kLeft,     ///< said farewell
  kFailed,   ///< its connection ended without farewell
};

/// What the store knows of each rank.
class Roster {
 public:
  struct Entry {
    RankState state = RankState::kAbsent;
    std::string name;
    std::string note;  ///< why it failed, or why it was refused while absent
  };

  explicit Roster(int size) : entries_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(entries_.size()); }
  bool contains(int rank) const { return rank >= 0 && rank < size(); }
  Entry& operator[](int rank) { return entries_[static_cast<std::size_t>(rank)]; }
  const Entry& operator[](int rank) const { return entries_[static_cast<std::size_t>(rank)]; }
  /// "rank 3 (node3)"; for one that never came, "rank 3 (never connected)" or why it was refused.
  std::string describe(int rank) const;
  /// The lowest rank that failed, or -1.
  int first_failed() const;
  int count(RankState state) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace foldcast::bootstrap
