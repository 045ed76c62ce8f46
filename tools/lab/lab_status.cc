#include <sstream>

#include "fmt/format.h"
#include "tools/lab/lab.h"
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

/// Whether somebody listens on the port in the network of a process: no connection is made, so nothing is disturbed.
bool is_listening(pid_t pid, std::uint16_t port) {
  std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream lines(read_file(fmt::format("/proc/{}/net/{}", pid, table)).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, socket_state;
      fields >> number >> local >> remote >> socket_state;
      if (local.ends_with(wanted) && socket_state == "0A") return true;
    }
  }
  return false;
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

std::string host_line(const LoadedLab& lab, const LabHost& host, std::string_view device, std::uint64_t rate) {
  auto layout = lab.state.layout();
  std::string link = "-";
  InterfaceBytes counters;
  if (host.uplink >= 0) {
    link = fmt::format("{} at {}", layout.switches[static_cast<std::size_t>(host.uplink)].name, rate_text(rate));
    counters = counters_of(lab.state.holders.at(host.name).pid, device);
  }
  return fmt::format("{:<10}{:<15}{:<22}{:>15}{:>15}", host.name, host.address, link, counters.tx, counters.rx);
}

}  // namespace

Result<std::string> describe_lab(const std::string& name) {
  FOLDCAST_ASSIGN(LoadedLab lab, load_running_lab(name));
  const LabSpec& spec = lab.state.spec;
  auto layout = lab.state.layout();
  std::string text =
      fmt::format("lab {}: {} nodes in {} rack{}, {} rank{} per node, MTU {}, supervisor pid {}{}\n", name, spec.nodes,
                  spec.racks, spec.racks == 1 ? "" : "s", spec.ranks_per_node, spec.ranks_per_node == 1 ? "" : "s",
                  spec.mtu, lab.state.supervisor.pid, lab.state.user_namespace ? ", in a user namespace" : "");
  text += fmt::format("{:<10}{:<15}{:<22}{:>15}{:>15}\n", "host", "address", "link to", "bytes sent", "received");
  for (const LabHost& node : layout.nodes) text += host_line(lab, node, "eth0", spec.rate) + "\n";
  for (const LabHost& host : layout.switches) {
    text += host_line(lab, host, "up0", spec.uplink_rate()) + "  " + health_of(lab, host) + "\n";
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
