// What the reductions of floats do to a vector of float or double. Included once per instruction set.

#if defined(FOLDCAST_KERNELS_CPU_FLOAT_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLDCAST_KERNELS_CPU_FLOAT_OPS_INL_H_
#undef FOLDCAST_KERNELS_CPU_FLOAT_OPS_INL_H_
#else
#define FOLDCAST_KERNELS_CPU_FLOAT_OPS_INL_H_
#endif

#include <limits>

#include "core/base/reduce_op.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

/// The lesser, with -0 < +0; NaN where either is NaN, of any payload (canonical_nan fixes it at the end of a fold).
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
V nan_min([[maybe_unused]] D d, V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
  // Two minima in either order have the same bits, or are the two zeros, whose union is -0. On x86 they are also a and
  // b themselves where either is NaN, and the union of a NaN's bits with any others is NaN: hence no test for it.
  const V lesser = hn::Or(hn::Min(a, b), hn::Min(b, a));
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return lesser;
#else
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, lesser));
#endif
}

/// Replaces every NaN by the one quiet NaN without payload. Which payload an addition of two NaNs keeps depends on the
/// order in which the compiler puts the operands, and ranks must agree on every bit.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
V canonical_nan(D d, V value) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::IfThenElse(hn::IsNaN(value), hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()), value);
}

/// Whether a lane of one of the vectors may be NaN: any NaN makes the sum NaN. So do infinities of both signs, which is
/// a false alarm.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
bool may_have_nan(D d, V value) {
  return !hwy::HWY_NAMESPACE::AllFalse(d, hwy::HWY_NAMESPACE::IsNaN(value));
}
template <class D, class V, class... More>
bool may_have_nan(D d, V a, V b, More... more) {
  return may_have_nan(d, hwy::HWY_NAMESPACE::Add(a, b), more...);
}

/// A fold in a vector of floats: `enter` each operand, `apply` pairwise, `leave` once, before canonical_nan.
template <ReduceOp kOp>
struct FloatOp {
  // max(a, b) = -min(-a, -b), so that the order of zeros and NaNs is written once.
  template <class V>
  static V enter(V value) {
    if constexpr (kOp == ReduceOp::kMax) {
      return hwy::HWY_NAMESPACE::Neg(value);
    } else {
      return value;
    }
  }

  template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
  static V apply(D d, V a, V b) {
    if constexpr (kOp == ReduceOp::kSum) return hwy::HWY_NAMESPACE::Add(a, b);
    if constexpr (kOp == ReduceOp::kProd) return hwy::HWY_NAMESPACE::Mul(a, b);
    if constexpr (kOp == ReduceOp::kMin || kOp == ReduceOp::kMax) return nan_min(d, a, b);
  }

  template <class V>
  static V leave(V value) {
    return enter(value);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#endif
