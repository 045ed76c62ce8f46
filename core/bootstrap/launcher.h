#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/status.h"

namespace foldcast::bootstrap {

/// Who we are in the job, and where its store is.
struct LaunchInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string store_host;  ///< of rank 0
  std::uint16_t store_port = 0;
  std::string launcher;  ///< "foldcast", "torchrun", "Open MPI", "PMI", "Slurm" or "single process"
};

/// Resolves in this order: FOLDCAST_RANK/SIZE/STORE (host:port); torchrun's RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT;
/// Open MPI's OMPI_COMM_WORLD_*; PMI's PMI_RANK/SIZE/FD; Slurm's SLURM_PROCID/NTASKS. None: a job of one process.
/// The first that is present decides; if it is incomplete or contradictory that is an error naming the variable.
/// `env` looks a variable up (getenv in production).
Result<LaunchInfo> resolve_launch(const std::function<std::optional<std::string>(const std::string&)>& env);

}  // namespace foldcast::bootstrap
