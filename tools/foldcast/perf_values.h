#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/foldcast/perf_reference.h"

namespace foldcast::tools {

/// What the reference's numbers are made of: which value a rank contributes to an element, and how two are combined.
/// See Reference for what "exact" and "general" mean. All are functions of their arguments alone.

/// Integers and bool: the element's value, extended to 64 bits.
std::uint64_t integer_value(const ReferenceShape& shape, int rank, std::size_t index);
std::uint64_t combine_integers(const ReferenceShape& shape, std::uint64_t a, std::uint64_t b);
/// What is left to do once all are combined: the division of avg; of logical ops, making it 0 or 1.
std::uint64_t finish_integer(const ReferenceShape& shape, std::uint64_t combined);

double exact_value(const ReferenceShape& shape, int rank, std::size_t index);
double general_value(const ReferenceShape& shape, int rank, std::size_t index);
double combine_floats(ReduceOp op, double a, double b);
/// Floats divide in their own precision, smaller ones than float32 in float32.
double divide_float(Datatype dtype, double sum, int ranks);

/// The precision that every partial result keeps: of the datatype or, if that is narrower, of the wire format.
struct Precision {
  int digits = 0;
  int min_exponent = 0;
};
Precision kept_precision(const ReferenceShape& shape);
/// How far off the reduction of general values may be: `result` exact, `magnitude` the sum of what was added, without
/// signs.
long double error_bound(const ReferenceShape& shape, long double result, long double magnitude);

}  // namespace foldcast::tools
