#include "kernels/reducer.h"

#include <cstring>

#include "core/base/check.h"
#include "kernels/cpu/families.h"

namespace foldcast::kernels {
namespace {

bool is_half_float(Datatype dtype) { return dtype == Datatype::kFloat16 || dtype == Datatype::kBfloat16; }

void run(const Fold& fold) {
  if (!is_floating(fold.dtype)) return fold_integers(fold);
  return is_half_float(fold.dtype) ? fold_half_floats(fold) : fold_floats(fold);
}

}  // namespace

void reduce(ReduceOp op, Datatype dtype, std::byte* target, const std::byte* a, const std::byte* b, std::size_t count) {
  const std::byte* const inputs[] = {a, b};
  reduce_n(op, dtype, target, inputs, count);
}

void reduce_n(ReduceOp op, Datatype dtype, std::byte* target, std::span<const std::byte* const> inputs,
              std::size_t count) {
  FOLDCAST_CHECK(is_valid(op) && is_valid(dtype), "a reduction needs a known operation and datatype");
  FOLDCAST_CHECK(!inputs.empty(), "a reduction needs at least one input");
  if (count == 0) return;
  const std::size_t bytes = count * size_of(dtype);
  if (inputs.size() == 1) {
    if (target != inputs[0]) std::memcpy(target, inputs[0], bytes);
    return;
  }
  run({.op = pairwise(op),
       .dtype = dtype,
       .target = target,
       .inputs = inputs.data(),
       .input_count = inputs.size(),
       .bytes = bytes});
}

void divide(Datatype dtype, std::byte* target, std::uint64_t divisor, std::size_t count) {
  FOLDCAST_CHECK(is_valid(dtype), "a division needs a known datatype");
  FOLDCAST_CHECK(divisor != 0, "a sum is divided by the number of ranks, which is at least one");
  if (count == 0 || divisor == 1) return;
  const Division division{.dtype = dtype, .target = target, .divisor = divisor, .bytes = count * size_of(dtype)};
  if (!is_floating(dtype)) return divide_integers(division);
  return is_half_float(dtype) ? divide_half_floats(division) : divide_floats(division);
}

std::string_view cpu_target() { return chosen_target(); }

}  // namespace foldcast::kernels
