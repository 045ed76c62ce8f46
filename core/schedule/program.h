#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/schedule.h"

namespace foldcast::schedule {

/// The program of `ranks` ranks whose schedules `build` appends, called once for each rank's builder.
Program build_program(std::string name, std::uint32_t ranks, const std::function<void(Builder&)>& build);

/// One collective among all ranks of a communicator, without groups.
struct FlatCall {
  std::uint32_t ranks = 1;  ///< 1 or more; of send_recv 2
  std::int32_t root = 0;
  bool in_place = false;  ///< matters to all_to_all only
  bool rounds = false;    ///< see Builder::set_rounding
};

/// One rank's schedule of it.
Schedule build_one(const Algorithm& algorithm, const FlatCall& call, std::int32_t rank);
Program build_flat(const Algorithm& algorithm, const FlatCall& call);
inline Program build_flat(const Algorithm& algorithm, std::uint32_t ranks, std::int32_t root = 0,
                          bool in_place = false) {
  return build_flat(algorithm, FlatCall{ranks, root, in_place, false});
}

}  // namespace foldcast::schedule
