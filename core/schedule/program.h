#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// The program of `ranks` ranks whose schedules `build` appends, called once for each rank's builder.
Program build_program(std::string name, std::uint32_t ranks, const std::function<void(Builder&)>& build);

/// One collective among all `ranks` ranks, without groups. `ranks` is 1 or more (send_recv: 2).
Program build_flat(const Algorithm& algorithm, std::uint32_t ranks, std::int32_t root = 0, bool in_place = false);

}  // namespace foldcast::schedule
