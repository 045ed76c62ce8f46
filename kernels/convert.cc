#include "kernels/convert.h"

#include "core/base/check.h"
#include "kernels/cpu/conversions.h"

namespace foldcast::kernels {
namespace {

bool is_half(Datatype dtype) { return dtype == Datatype::kFloat16 || dtype == Datatype::kBfloat16; }
bool is_float8(Datatype dtype) { return dtype == Datatype::kFloat8E4m3 || dtype == Datatype::kFloat8E5m2; }

}  // namespace

void narrow(Datatype dtype, std::byte* target, const float* source, std::size_t count) {
  FOLDCAST_CHECK(is_half(dtype) || is_float8(dtype), "only small floats are converted");
  is_half(dtype) ? narrow_half_floats(dtype, target, source, count) : narrow_float8(dtype, target, source, count);
}

void widen(Datatype dtype, float* target, const std::byte* source, std::size_t count) {
  FOLDCAST_CHECK(is_half(dtype) || is_float8(dtype), "only small floats are converted");
  is_half(dtype) ? widen_half_floats(dtype, target, source, count) : widen_float8(dtype, target, source, count);
}

}  // namespace foldcast::kernels
