#pragma once

#include <cstddef>

#include "core/base/datatype.h"

namespace foldcast::kernels {

// Between float32 and the 16- and 8-bit floats, with the numbers of formats.h. Any thread, any alignment; source and
// target do not overlap. `dtype` is one of the four small floats; anything else aborts.

void narrow(Datatype dtype, std::byte* target, const float* source, std::size_t count);
void widen(Datatype dtype, float* target, const std::byte* source, std::size_t count);

}  // namespace foldcast::kernels
