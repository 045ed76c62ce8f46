#pragma once

#include <cstdint>

#include "core/base/engine.h"

namespace foldcast::hierarchy {

/// What NodeGroup says of the calls it takes: success, or kInvalidArgument (of a transport's verb kUnsupported) that
/// says what is wrong, for local rank `rank` of `size`.
Status check_call(const EngineCall& call, std::uint32_t rank, std::uint32_t size);

}  // namespace foldcast::hierarchy
