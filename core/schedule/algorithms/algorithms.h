#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "core/base/collective.h"
#include "core/base/status.h"
#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Appends one member's part of a collective to the builder. Any group size from 1 up, any root.
using StageAlgorithm = void (*)(Builder&, const Stage&);
using BlockAlgorithm = void (*)(Builder&, const BlockStage&);

/// One way to run one collective.
struct Algorithm {
  std::string_view name;  ///< as `--plan` and `explain` spell it
  Collective kind = Collective::kNone;
  /// Operands are combined in the order of the members, in some bracketing: right for an op that does not commute.
  /// True where nothing is reduced.
  bool keeps_order = false;
  /// Sends the blocks of several members as one message: `blocks` must follow each other in memory, in the members'
  /// order.
  bool adjacent = false;
  std::variant<StageAlgorithm, BlockAlgorithm> build;
};

/// Those for a collective, the generally useful first; a kind is served by those of scheduled_as(kind).
std::span<const Algorithm> algorithms_of(Collective kind);
/// kInvalidArgument with the known names when there is none.
Result<Algorithm> find_algorithm(Collective kind, std::string_view name);

}  // namespace foldcast::schedule
