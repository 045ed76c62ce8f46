#pragma once

#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast::tools {

/// What a rank is bound to.
enum class Binding { kNone, kCore };
Result<Binding> parse_binding(std::string_view text);

/// The processors that we may run on, one of each core before the second of any.
std::vector<int> processors_by_core();

/// The processor of a rank; -1 without binding. With more ranks than processors they share in turns.
int processor_of(Binding binding, int rank);

}  // namespace foldcast::tools
