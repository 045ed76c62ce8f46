#pragma once

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// One message from the root of two members, its source, to the other one's target.
void send_recv_direct(Builder& builder, const Stage& stage);

}  // namespace foldcast::schedule
