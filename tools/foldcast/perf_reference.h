#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "tools/foldcast/perf_moved.h"

namespace foldcast::tools {

/// What is reduced in one check, and by whom. All ranks build it with the same values but their own `rank`.
struct ReferenceShape {
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;
  int rank = 0;
  std::uint64_t seed = 0;
  WireFormat wire = WireFormat::kExact;  ///< of float32; others travel as they are
};

/// What this rank's contributions are multiplied with under premul_sum: 1 or 2, so that the product is exact.
constexpr int premultiplier(int rank) { return 1 + rank % 2; }

/// Random contributions of all ranks and the result of reducing them, computed serially from the seed alone: nothing of
/// the library under test is used, and no rank trusts another.
///
/// Three quarters of the elements are *exact*: their result has the same bits in whatever order it is reduced, so it
/// must be equal to the last bit. Integers wrap, so any value does (odd ones for prod, which would else end at 0; some
/// zeros where only those count). Float sums are of whole numbers small enough that every partial sum is representable,
/// float products are of powers of two within the exponent's range; where there are too many ranks for that, a varying
/// part of them contributes the neutral element. The other quarter (sums, products and averages of floats) are
/// *general* values, judged by the a-priori error bound of any order with one rounding an addition (Higham, Accuracy
/// and Stability of Numerical Algorithms, section 4.2).
///
/// A wire format narrower than the datatype adds a rounding wherever a contribution, a partial sum or the result is
/// sent, at most once a rank and once more: exact elements are chosen to survive it (but for averages, which are all
/// judged by the bound), and the bound grows by its unit roundoff.
///
/// The pattern repeats with a prime period, as MovedData does.
class Reference {
 public:
  static constexpr std::size_t kPeriod = MovedData::kPeriod;

  /// For data of `total` elements a rank.
  Reference(const ReferenceShape& shape, std::size_t total);

  /// This rank's contribution, elements `first` on, `count` of them, to the start of `buffer`.
  void fill(std::byte* buffer, std::size_t first, std::size_t count) const;
  /// Compares elements of the result with the reference.
  Wrong check(const std::byte* buffer, std::size_t first, std::size_t count) const;
  /// Compares elements of this rank's contribution, bit by bit.
  Wrong check_contribution(const std::byte* buffer, std::size_t first, std::size_t count) const;

 private:
  std::size_t element_bytes() const { return size_of(shape_.dtype); }
  bool is_wrong(std::size_t index, const std::byte* value) const;
  void make_exact(std::size_t index);
  void make_general(std::size_t index);
  std::string describe(std::size_t index, const std::byte* value) const;

  ReferenceShape shape_;
  std::size_t period_;  ///< elements that differ
  std::size_t exact_;   ///< of which are exact
  std::vector<std::byte> mine_;
  std::vector<std::byte> expected_;  ///< bits for exact elements
  std::vector<long double> general_;
  std::vector<long double> bound_;
};

}  // namespace foldcast::tools
