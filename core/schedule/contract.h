#pragma once

#include <cstdint>

#include "core/base/collective.h"

namespace foldcast::schedule {

/// What a program must do. Of send_recv the root is the sender, and the program has two ranks.
struct Contract {
  Collective kind = Collective::kAllReduce;
  std::int32_t root = 0;
};

/// What was found out about a right program.
struct Proof {
  /// Every result combines the ranks' contributions in rank order, whatever the bracketing: right for an op that does
  /// not commute. True where nothing is reduced.
  bool keeps_order = true;
};

}  // namespace foldcast::schedule
