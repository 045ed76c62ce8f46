#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::tools {

/// What is reduced in one check, and by whom. All ranks build it with the same values but their own `rank`.
struct ReferenceShape {
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;
  int rank = 0;
  std::uint64_t seed = 0;
};

/// What a check found: how many elements are wrong and, in words, the first of them.
struct Wrong {
  std::uint64_t elements = 0;
  std::string first;  ///< "element 17: 3, expected 4"; empty when none is wrong
};

/// Random contributions of all ranks and the result of reducing them, computed serially from the seed alone: nothing of
/// the library under test is used, and no rank trusts another.
///
/// Three quarters of the elements are *exact*: their result has the same bits in whatever order it is reduced, so it
/// must be equal to the last bit. Integers wrap, so any value does (odd ones for prod, which would else end at 0).
/// Float sums are of whole numbers small enough that every partial sum is representable, float products are of powers
/// of two within the exponent's range; where there are too many ranks for that, a varying part of them contributes the
/// neutral element. The other quarter (sums, products and averages of floats) are *general* values, judged by the
/// a-priori error bound of any order with one rounding an addition (Higham, Accuracy and Stability of Numerical
/// Algorithms, section 4.2).
///
/// The pattern repeats with a prime period, so that its price does not grow with the buffer, yet data that ends up at a
/// wrong multiple of any chunk size is found.
class Reference {
 public:
  static constexpr std::size_t kPeriod = 65521;

  /// For buffers of `count` elements.
  Reference(const ReferenceShape& shape, std::size_t count);

  /// This rank's contribution; `buffer` has room for `count` elements.
  void fill(std::byte* buffer) const;
  /// Compares a result with the reference.
  Wrong check(const std::byte* buffer) const;

 private:
  std::size_t element_bytes() const { return size_of(shape_.dtype); }
  bool is_wrong(std::size_t index, const std::byte* value) const;
  void make_exact(std::size_t index);
  void make_general(std::size_t index);
  std::string describe(std::size_t index, const std::byte* value) const;

  ReferenceShape shape_;
  std::size_t count_;
  std::size_t period_;  ///< elements that differ
  std::size_t exact_;   ///< of which are exact
  std::vector<std::byte> mine_;
  std::vector<std::byte> expected_;  ///< bits for exact elements
  std::vector<long double> general_;
  std::vector<long double> bound_;
};

}  // namespace foldcast::tools
