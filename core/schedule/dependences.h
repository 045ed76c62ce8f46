#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/schedule/footprint.h"

namespace foldcast::schedule {

/// Finds what each step of one rank must wait for, step by step in program order. Remembers of each stretch of memory
/// who wrote it last and who has read it since: only those can be the first that a later step conflicts with.
class DependenceInference {
 public:
  explicit DependenceInference(std::size_t steps);

  /// Earlier steps that order the next step after all it conflicts with, ascending; steps come 0, 1, 2... None of them
  /// is implied by another one, as each costs the executor a counter update; in schedules of over `kExact` steps,
  /// where finding that out would cost too much, few are.
  std::vector<std::uint32_t> add(const Footprint& footprint);

  static constexpr std::size_t kExact = 4096;

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Stretch {
    std::uint32_t writer = kNone;
    std::vector<std::uint32_t> readers;
  };
  /// One memory, by where stretches begin; each ends where the next one begins.
  using Memory = std::map<Cut, Stretch>;

  /// The stretches of a region, which are cut so that they are its alone.
  std::pair<Memory::iterator, Memory::iterator> stretches(const Region& region);
  std::vector<std::uint32_t> reduced(std::vector<std::uint32_t> conflicting);

  std::unordered_map<std::uint32_t, Memory> memories_;
  std::vector<std::vector<std::uint32_t>> waits_;  ///< of each step so far
  std::size_t words_;
  std::vector<std::uint64_t> ancestors_;  ///< a bit set a step: all it waits for, directly or not
  std::vector<std::uint32_t> implied_by_;
  std::uint32_t fence_ = kNone;
};

}  // namespace foldcast::schedule
