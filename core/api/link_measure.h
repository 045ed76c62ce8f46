#pragma once

#include <cstdint>
#include <vector>

#include "core/api/communicator.h"
#include "core/select/calibrate.h"
#include "core/select/calibration_file.h"

namespace foldcast::api {

/// Fills in the measured part of a communicator's link model. Collective over it; blocking.
class LinkMeasure {
 public:
  explicit LinkMeasure(Communicator& communicator) : communicator_(communicator) {}

  /// From what an earlier job left, if that still holds; else measured and left for the next.
  Status load_or_run();
  /// Measured, and left for the next job.
  Status run();

 private:
  select::CalibrationFile file() const;
  Result<double> timed_call(const hierarchy::Composition& composition, std::uint64_t bytes);
  select::TimedCall caller();
  /// Those of the job, when all of it is here: who knows other speeds than its peer waits for messages in vain.
  select::Rails rails();
  /// Rank 0's numbers on all ranks; false when it has none.
  Result<bool> share(select::LinkModel& model, bool has_numbers);

  Communicator& communicator_;
  std::vector<std::byte> buffer_;
};

}  // namespace foldcast::api
