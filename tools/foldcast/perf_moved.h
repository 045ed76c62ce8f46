#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/datatype.h"

namespace foldcast::tools {

/// What a check found: how many elements are wrong and, in words, the first of them.
struct Wrong {
  std::uint64_t elements = 0;
  std::string first;  ///< "element 17: 3, expected 4"; empty when none is wrong
  /// Takes in what was found elsewhere.
  void add(const Wrong& other);
};

/// How to draw the random numbers of one check: the same on all ranks.
struct DataShape {
  Datatype dtype = Datatype::kFloat32;
  std::uint64_t seed = 0;
};

/// Random bits (of bool: zeros and ones) of one rank, for collectives that move data and reduce nothing: whatever is
/// received must have the same bits. Element i is a function of seed, rank and i alone, repeated with a prime period,
/// so that its price does not grow with the buffer, yet data from a wrong multiple of any chunk size is found.
class MovedData {
 public:
  static constexpr std::size_t kPeriod = 65521;

  MovedData(const DataShape& shape, int rank) : shape_(shape), rank_(rank) {}

  /// Elements `first` on, `count` of them, to the start of `buffer`.
  void fill(std::byte* buffer, std::size_t first, std::size_t count) const;
  Wrong check(const std::byte* buffer, std::size_t first, std::size_t count) const;

 private:
  DataShape shape_;
  int rank_;
};

/// SplitMix64's finalizer (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014): 64 bits
/// that depend on all bits of `z`.
std::uint64_t mix(std::uint64_t z);

}  // namespace foldcast::tools
