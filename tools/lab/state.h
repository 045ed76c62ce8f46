#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tools/lab/process.h"
#include "tools/lab/spec.h"

namespace foldcast::tools {

/// Where labs keep their state: /run/foldcast-lab as root, else $XDG_RUNTIME_DIR/foldcast-lab, else a private directory
/// in /tmp. Created if need be; one that somebody else owns is refused.
Result<std::string> state_root();

/// What is known of a lab that is up: the contents of lab.json in its state directory.
struct LabState {
  LabSpec spec;
  std::string boot_id;  ///< of the kernel it runs under; pids of another mean nothing
  ProcessIdentity supervisor;
  bool user_namespace = false;                         ///< made without root: enter it before the others
  std::map<std::string, ProcessIdentity> holders;      ///< per node and switch: the process that holds its namespaces
  std::map<std::string, ProcessIdentity> aggregators;  ///< per switch: its foldcastd

  LabLayout layout() const { return LabLayout::of(spec); }
  /// Its namespaces; an unknown name is an error that lists the known ones.
  Result<Namespaces> enter(const std::string& host) const;
  /// "rack0=10.77.255.1:7000,..." for FOLDCAST_AGGREGATORS.
  std::string aggregator_list() const;
};

/// One lab's directory: lab.json, topology.conf, supervisor.log, NAME.log of each aggregator, jobs/.
class StateDirectory {
 public:
  StateDirectory(const std::string& root, const std::string& name) : path_(root + "/" + name) {}

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  bool exists() const;
  Status create() const;
  void remove() const;

  Status save(const LabState& state) const;
  /// Nothing when there is no lab.json or it cannot be read: the lab never came up.
  std::optional<LabState> load() const;

 private:
  std::string path_;
};

/// Whether the supervisor of the state still runs; if not, nothing of the lab does, save what `lab exec` started.
bool is_up(const LabState& state);

/// Something that `lab run` or `lab exec` started and that runs, as registered in jobs/.
struct LabJob {
  int number = 0;
  ProcessIdentity runner;
  std::string command;
  int ranks = 0;  ///< 0: `lab exec`
  std::string directory;
};

/// Claims the next job number: makes jobs/NUMBER/ with job.json in it. Old, ended jobs beyond a few are removed.
Result<LabJob> register_job(const StateDirectory& directory, const std::string& command, int ranks);
/// Marks it ended; its logs stay.
void end_job(const LabJob& job);
/// The running ones, in order.
std::vector<LabJob> running_jobs(const StateDirectory& directory);

/// Names of the labs that have a state directory, sorted.
std::vector<std::string> lab_names(const std::string& root);

/// Held while a lab is brought up or taken down, so that two commands do not meet; released when it goes out of scope.
Result<UniqueFd> lock_labs(const std::string& root, Deadline deadline);

std::string current_boot_id();

}  // namespace foldcast::tools
