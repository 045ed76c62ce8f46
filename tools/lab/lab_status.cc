#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/lab/lab.h"
#include "tools/lab/lab_aggregator.h"
#include "tools/system/file.h"
#include "tools/system/net_dev.h"

namespace foldcast::tools {
namespace {

/// Of one interface in the network of a process; zeros where it has none of that name.
InterfaceBytes counters_of(pid_t pid, std::string_view device) {
  auto interfaces = parse_net_dev(read_file(fmt::format("/proc/{}/net/dev", pid)).value_or(""));
  if (!interfaces.ok()) return {};
  for (const InterfaceBytes& one : *interfaces) {
    if (one.name == device) return one;
  }
  return {};
}

std::string health_of(const LoadedLab& lab, const LabHost& host) {
  auto aggregator = lab.state.aggregators.find(host.name);
  if (aggregator == lab.state.aggregators.end()) return "no aggregator";
  if (!is_alive(aggregator->second)) {
    auto note = read_file(lab.directory.file(host.name + ".exit"));
    return fmt::format("aggregator {}; see {}", note.value_or("is gone"), lab.directory.file(host.name + ".log"));
  }
  bool listening = is_listening(lab.state.holders.at(host.name).pid, kAggregatorPort);
  return fmt::format("aggregator {}:{} {}, pid {}", host.address, kAggregatorPort,
                     listening ? "listening" : "NOT listening", aggregator->second.pid);
}

/// Of one host on one rail; only the first has the host's name, the others have the interface's.
std::string host_line(const LoadedLab& lab, const LabHost& host, int rail) {
  const LabSpec& spec = lab.state.spec;
  bool is_node = host.name.starts_with("node");
  std::string device = is_node ? spec.node_device(rail) : uplink_device(rail);
  std::string link = "-";
  InterfaceBytes counters;
  if (host.uplink >= 0) {
    link = fmt::format("{} at {}", lab.state.layout().switches[static_cast<std::size_t>(host.uplink)].name,
                       rate_text(is_node ? spec.rate_on(rail) : spec.uplink_rate(rail)));
    counters = counters_of(lab.state.holders.at(host.name).pid, device);
  } else if (rail > 0) {
    device = fmt::format("br{}", rail);
  }
  return fmt::format("{:<10}{:<15}{:<22}{:>15}{:>15}", rail == 0 ? host.name : "  " + device, host.address_on(rail),
                     link, counters.tx, counters.rx);
}

/// "2", or "3,2,1".
std::string ranks_text(const LabSpec& spec) { return fmt::format("{}", fmt::join(spec.ranks_per_node, ",")); }

}  // namespace

Result<std::string> describe_lab(const std::string& name) {
  FOLDCAST_ASSIGN(LoadedLab lab, load_running_lab(name));
  const LabSpec& spec = lab.state.spec;
  auto layout = lab.state.layout();
  std::string text =
      fmt::format("lab {}: {} nodes in {} rack{}, {} rank{} per node, {}MTU {}, supervisor pid {}{}\n", name,
                  spec.nodes, spec.racks, spec.racks == 1 ? "" : "s", ranks_text(spec),
                  ranks_text(spec) == "1" ? "" : "s", spec.rails == 1 ? "" : fmt::format("{} rails, ", spec.rails),
                  spec.mtu, lab.state.supervisor.pid, lab.state.user_namespace ? ", in a user namespace" : "");
  text += fmt::format("{:<10}{:<15}{:<22}{:>15}{:>15}\n", "host", "address", "link to", "bytes sent", "received");
  for (const LabHost& node : layout.nodes) {
    for (int rail = 0; rail < spec.rails; ++rail) text += host_line(lab, node, rail) + "\n";
  }
  for (const LabHost& host : layout.switches) {
    text += host_line(lab, host, 0) + "  " + health_of(lab, host) + "\n";
    for (int rail = 1; rail < spec.rails; ++rail) text += host_line(lab, host, rail) + "\n";
  }
  auto jobs = running_jobs(lab.directory);
  text += jobs.empty() ? "no jobs\n" : "";
  for (const LabJob& job : jobs) {
    std::string what = job.ranks ? fmt::format("{} rank{}", job.ranks, job.ranks == 1 ? "" : "s") : "exec";
    text += fmt::format("job {}: {}, pid {}: {}\n", job.number, what, job.runner.pid, job.command);
  }
  text += fmt::format("state and logs: {}\n", lab.directory.path());
  return text;
}

}  // namespace foldcast::tools
