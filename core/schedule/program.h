#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// The program of `ranks` ranks whose schedules `build` appends, called once for each rank's builder.
Program build_program(std::string name, std::uint32_t ranks, const std::function<void(Builder&)>& build);

/// One all-reduce of the whole input among all `ranks` ranks, without groups. `ranks` is 1 or more.
Program build_flat(const AllReduceEntry& algorithm, std::uint32_t ranks);

}  // namespace foldcast::schedule
