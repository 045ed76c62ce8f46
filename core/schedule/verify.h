#pragma once

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// Proves an all-reduce program by moving symbolic chunks: every output part of every rank ends with each rank's
/// contribution exactly once, combined in an order that is the same on all ranks; every send meets its receive; nothing
/// deadlocks; dependences alone (in any legal order of execution) order every conflicting access; group steps are
/// posted in the same order per lane by all members. Both with input and output apart and in place. The error names
/// rank, step and chunk.
Status verify_all_reduce(const Program& program);

}  // namespace foldcast::schedule
