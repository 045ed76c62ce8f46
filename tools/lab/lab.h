#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tools/lab/binding.h"
#include "tools/lab/spec.h"
#include "tools/lab/state.h"

namespace foldcast::tools {

/// Emulated clusters on this machine: what `foldcast lab` does. See docs/lab.md. All calls block, for seconds at most
/// except run_in_lab; none may be used in a program with threads, since they fork.

/// Brings a lab up; on an error nothing of it is left. A lab that crashed under the same name is cleaned up first.
Status bring_lab_up(const LabSpec& spec);

/// Ends its jobs, everything else that runs in its namespaces, and the lab. After a crash the namespaces cannot be told
/// any more: then it ends the jobs and what `lab exec` runs, but not what such a command left in the background.
Status take_lab_down(const std::string& name);
/// All of them; the names of those taken down.
Result<std::vector<std::string>> take_all_labs_down();

/// Nodes, links, aggregators, jobs and byte counters, for people.
Result<std::string> describe_lab(const std::string& name);

struct LabRun {
  std::string lab;
  std::vector<std::string> command;
  std::optional<std::chrono::nanoseconds> time_limit;
  int ranks = 0;  ///< only the first so many; 0: all
  Binding binding = Binding::kNone;
};
/// Runs the command as every rank, blockwise over the nodes: the exit code of the job.
Result<int> run_in_lab(const LabRun& run);

/// What can be done to a switch's aggregator.
enum class AggregatorDeed { kKill, kStop, kContinue, kStart };
/// Does it; kStart waits until it listens. The rest of the lab goes on, as a cluster does.
Status do_to_aggregator(const std::string& lab, const std::string& host, AggregatorDeed deed);

/// Replaces this process by the command on a node or switch; returns only on an error.
Status execute_in_lab(const std::string& lab, const std::string& host, const std::vector<std::string>& command);

/// A lab that is up; one that is not, or has crashed, is an error that says what to do.
struct LoadedLab {
  StateDirectory directory;
  LabState state;
};
Result<LoadedLab> load_running_lab(const std::string& name);

}  // namespace foldcast::tools
