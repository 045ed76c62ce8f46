#pragma once

#include "core/base/status.h"
#include "core/schedule/contract.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// Proves a program by moving symbolic chunks: every output part of every rank ends with exactly what the collective
/// says (reductions: each rank's contribution exactly once, combined by an expression that is the same on all ranks);
/// buffers that a rank does not have are not touched, inputs not written; every send meets its receive; nothing
/// deadlocks; dependences alone (in any legal order of execution) order every conflicting access; group steps are
/// posted in the same order per lane by all members. Both with input and output apart and, on ranks whose
/// schedules allow it, in place. kInternal, naming
/// rank, step and chunk, for the first fault; kInvalidArgument for a contract that does not fit the program's size.
Result<Proof> verify(const Program& program, const Contract& contract);

}  // namespace foldcast::schedule
