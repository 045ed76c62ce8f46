#pragma once

#include <string>

#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// One line a step: number, action, what it waits for. Stable: tests and people compare it.
std::string print_text(const Program& program);
/// Graphviz: a cluster per rank, dependences as solid edges, messages as dashed ones.
std::string print_graphviz(const Program& program);

}  // namespace foldcast::schedule
