#pragma once

#include "core/base/status.h"
#include "core/schedule/contract.h"
#include "core/schedule/symbolic_memory.h"
#include "core/schedule/wiring.h"

namespace foldcast::schedule {

/// Runs a program once on symbols, in the given order, and checks that only what is there is read and written and that
/// all outputs end as the obligation says. One order is enough for a program whose dependences order every conflicting
/// access: then all legal orders compute the same. kInternal, naming rank, step and part, for the first fault;
/// `in_place` says whether input and output are one memory (on ranks whose schedule allows that).
Result<Proof> run_symbolically(const Subject& subject, const EventOrder& order, bool in_place);

}  // namespace foldcast::schedule
