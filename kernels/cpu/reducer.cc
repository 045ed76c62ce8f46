#include "kernels/reducer.h"

#include <cstring>

#include "core/base/check.h"
#include "kernels/cpu/families.h"
#include "kernels/user_fold.h"
#include "kernels/user_op.h"

namespace foldcast::kernels {
namespace {

enum class Family : std::uint8_t { kIntegers, kBool, kFloats, kHalfFloats, kFloat8 };

Family family_of(Datatype dtype) {
  switch (dtype) {
    case Datatype::kFloat16:
    case Datatype::kBfloat16:
      return Family::kHalfFloats;
    case Datatype::kFloat32:
    case Datatype::kFloat64:
      return Family::kFloats;
    case Datatype::kFloat8E4m3:
    case Datatype::kFloat8E5m2:
      return Family::kFloat8;
    case Datatype::kBool:
      return Family::kBool;
    default:
      return Family::kIntegers;
  }
}

void run(const Fold& fold) {
  switch (family_of(fold.dtype)) {
    case Family::kFloats:
      return fold_floats(fold);
    case Family::kHalfFloats:
      return fold_half_floats(fold);
    case Family::kFloat8:
      return fold_float8(fold);
    case Family::kBool:
      return fold_integer_logic(fold);
    case Family::kIntegers:
      return fold.op <= ReduceOp::kMax ? fold_integers(fold) : fold_integer_logic(fold);
  }
}

/// Whether the target is large and none of the inputs, so that its old contents would be read for nothing.
bool gains_from_streaming(const Fold& fold) {
  if (fold.bytes < kStreamedBytes) return false;
  for (std::size_t k = 0; k < fold.input_count; ++k) {
    if (fold.inputs[k] == fold.target) return false;
  }
  return true;
}

}  // namespace

void reduce(ReduceOp op, Datatype dtype, std::byte* target, const std::byte* a, const std::byte* b, std::size_t count) {
  const std::byte* const inputs[] = {a, b};
  reduce_n(op, dtype, target, inputs, count);
}

void reduce_n(ReduceOp op, Datatype dtype, std::byte* target, std::span<const std::byte* const> inputs,
              std::size_t count) {
  FOLDCAST_CHECK(is_valid(dtype) && (is_user(op) || is_defined(dtype, op)),
                 "a reduction needs a known operation that is defined for its datatype");
  FOLDCAST_CHECK(!inputs.empty(), "a reduction needs at least one input");
  if (count == 0) return;
  if (inputs.size() == 1) return copy_bytes(target, inputs[0], count * size_of(dtype));
  Fold fold{.op = pairwise(op),
            .dtype = dtype,
            .target = target,
            .inputs = inputs.data(),
            .input_count = inputs.size(),
            .bytes = count * size_of(dtype),
            .streamed = false};
  if (is_user(op)) {
    const UserOp* const user_op = find_user_op(op);
    FOLDCAST_CHECK(user_op != nullptr, "a user's reduction must be registered until the last call with it has ended");
    return fold_with(*user_op, fold);
  }
  fold.streamed = gains_from_streaming(fold);
  run(fold);
}

void divide(Datatype dtype, std::byte* target, std::uint64_t divisor, std::size_t count) {
  FOLDCAST_CHECK(is_valid(dtype) && dtype != Datatype::kBool, "a division needs a datatype of numbers");
  FOLDCAST_CHECK(divisor != 0, "a sum is divided by the number of ranks, which is at least one");
  if (count == 0 || divisor == 1) return;
  const Transform in_place{.dtype = dtype, .target = target, .source = target, .bytes = count * size_of(dtype)};
  switch (family_of(dtype)) {
    case Family::kFloats:
      return divide_floats(in_place, divisor);
    case Family::kHalfFloats:
      return divide_half_floats(in_place, divisor);
    case Family::kFloat8:
      return divide_float8(in_place, divisor);
    default:
      return divide_integers(in_place, divisor);
  }
}

void scale(Datatype dtype, std::byte* target, const std::byte* source, std::size_t count, const void* scalar) {
  FOLDCAST_CHECK(is_valid(dtype) && dtype != Datatype::kBool, "a multiplication needs a datatype of numbers");
  if (count == 0) return;
  const Transform transform{.dtype = dtype, .target = target, .source = source, .bytes = count * size_of(dtype)};
  const auto* const factor = static_cast<const std::byte*>(scalar);
  switch (family_of(dtype)) {
    case Family::kFloats:
      return scale_floats(transform, factor);
    case Family::kHalfFloats:
      return scale_half_floats(transform, factor);
    case Family::kFloat8:
      return scale_float8(transform, factor);
    default:
      return scale_integers(transform, factor);
  }
}

void copy_bytes(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes != 0 && target != source) copy_vectors(target, source, bytes);
}

std::string_view cpu_target() { return chosen_target(); }

}  // namespace foldcast::kernels
