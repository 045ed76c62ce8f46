#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/integer_logic.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

/// Of unsigned integers, whose bits those of all integers are.
template <class T, ReduceOp kOp>
struct LogicLanes : WithoutNan {
  using D = hn::ScalableTag<T>;
  using Pack = hn::Vec<D>;
  static constexpr std::size_t kBytes = sizeof(T) * hn::MaxLanes(D());

  // "and" is computed on what is zero: a and b = not (a is zero or b is zero). "xor" needs one bit for each operand's
  // truth, "or" does not.
  static Pack load(const std::byte* from) {
    const Pack value = get(D(), from);
    if constexpr (kOp == ReduceOp::kLand) return is_zero(value);
    if constexpr (kOp == ReduceOp::kLxor) return hn::AndNot(is_zero(value), hn::Set(D(), 1));
    return value;
  }
  static Pack fold(Pack a, Pack b) {
    if constexpr (kOp == ReduceOp::kBand) return hn::And(a, b);
    if constexpr (kOp == ReduceOp::kBxor || kOp == ReduceOp::kLxor) return hn::Xor(a, b);
    return hn::Or(a, b);
  }
  static Pack leave(Pack pack) {
    if constexpr (kOp == ReduceOp::kLand) return hn::AndNot(pack, hn::Set(D(), 1));
    if constexpr (kOp == ReduceOp::kLor) return hn::AndNot(is_zero(pack), hn::Set(D(), 1));
    return pack;
  }
  template <class Store>
  static void store(Pack pack, std::byte* to) {
    Store::put(pack, D(), to);
  }
  static void store_suspect(Pack pack, std::byte* to) { store<Cached>(pack, to); }

 private:
  static Pack is_zero(Pack value) { return hn::VecFromMask(D(), hn::Eq(value, hn::Zero(D()))); }
};

template <class T>
void fold_logical(const Fold& fold) {
  switch (fold.op) {
    case ReduceOp::kLand:
      return fold_all<LogicLanes<T, ReduceOp::kLand>>(fold);
    case ReduceOp::kLor:
      return fold_all<LogicLanes<T, ReduceOp::kLor>>(fold);
    default:
      return fold_all<LogicLanes<T, ReduceOp::kLxor>>(fold);
  }
}

void fold_integer_logic(const Fold& fold) {
  switch (fold.op) {
    case ReduceOp::kBand:
      return fold_all<LogicLanes<std::uint8_t, ReduceOp::kBand>>(fold);
    case ReduceOp::kBor:
      return fold_all<LogicLanes<std::uint8_t, ReduceOp::kBor>>(fold);
    case ReduceOp::kBxor:
      return fold_all<LogicLanes<std::uint8_t, ReduceOp::kBxor>>(fold);
    default:
      break;
  }
  switch (size_of(fold.dtype)) {
    case 1:
      return fold_logical<std::uint8_t>(fold);
    case 2:
      return fold_logical<std::uint16_t>(fold);
    case 4:
      return fold_logical<std::uint32_t>(fold);
    default:
      return fold_logical<std::uint64_t>(fold);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(fold_integer_logic);

/// The op of integers that does to truth values what `op` does to bool.
static ReduceOp of_truth(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kMin:
    case ReduceOp::kBand:
      return ReduceOp::kLand;
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBor:
      return ReduceOp::kLor;
    case ReduceOp::kBxor:
      return ReduceOp::kLxor;
    default:
      return op;
  }
}

void fold_integer_logic(const Fold& fold) {
  Fold logical = fold;
  if (fold.dtype == Datatype::kBool) logical.op = of_truth(fold.op);
  HWY_DYNAMIC_DISPATCH(fold_integer_logic)(logical);
}

}  // namespace foldcast::kernels
#endif
