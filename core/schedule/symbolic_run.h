#pragma once

#include "core/base/status.h"
#include "core/schedule/cells.h"
#include "core/schedule/wiring.h"

namespace foldcast::schedule {

/// Runs an all-reduce program once on symbols, in the given order, and checks that all outputs end as the same
/// expression over each rank's input exactly once. One order is enough for a program whose dependences order every
/// conflicting access: then all legal orders compute the same. kInternal, naming rank, step and part, for the first
/// fault; `in_place` says whether input and output are one memory.
Status run_symbolically(const Program& program, const Wiring& wiring, const EventOrder& order, bool in_place);

}  // namespace foldcast::schedule
