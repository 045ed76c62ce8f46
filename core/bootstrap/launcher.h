#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/config.h"
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
/// `env` looks a variable up (getenv in production); an empty value counts as unset.
///
/// Where the store is: FOLDCAST_STORE=host:port always decides, FOLDCAST_STORE_PORT replaces the port alone. Else
/// torchrun: MASTER_ADDR and MASTER_PORT + 1 (torchrun's own store has MASTER_PORT). Open MPI: 127.0.0.1 when all ranks
/// are local, else the first host of Slurm's node list. PMI: rank 0's choice, exchanged over PMI_FD; only this case
/// blocks, at most `setup_timeout`, until all ranks have come. Slurm: the first host of the step's node list.
/// Open MPI's and Slurm's port is derived from the job's identity, in 20000 to 29999.
Result<LaunchInfo> resolve_launch(const std::function<std::optional<std::string>(const std::string&)>& env,
                                  std::chrono::milliseconds setup_timeout = Config{}.setup_timeout);

}  // namespace foldcast::bootstrap
