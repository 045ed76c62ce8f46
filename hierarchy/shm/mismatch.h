#pragma once

#include <cstdint>

#include "hierarchy/shm/segment.h"

namespace foldcast::hierarchy {

struct RankCall {
  CallId call;
  std::uint32_t rank = 0;
};

/// kMismatch that names the first field in which two local ranks' calls differ, both values and both ranks. The calls
/// must differ.
Status mismatch_between(const RankCall& mine, const RankCall& theirs);

}  // namespace foldcast::hierarchy
