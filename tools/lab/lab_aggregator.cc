#include "tools/lab/lab_aggregator.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "core/base/deadline.h"
#include "fmt/format.h"
#include "tools/lab/lab.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

constexpr auto kStartTime = std::chrono::seconds(10);

int signal_of(AggregatorDeed deed) {
  switch (deed) {
    case AggregatorDeed::kKill:
      return SIGKILL;
    case AggregatorDeed::kStop:
      return SIGSTOP;
    case AggregatorDeed::kContinue:
    case AggregatorDeed::kStart:
      break;
  }
  return SIGCONT;
}

/// By the supervisor, whose children they are.
Status start_again(const std::string& name, const LoadedLab& lab, const std::string& host) {
  if (is_alive(lab.state.aggregators.at(host))) {
    return invalid_argument(fmt::format("the aggregator of {} runs; kill it first", host));
  }
  if (!signal_if_alive(lab.state.supervisor, SIGHUP)) return unavailable("the lab's supervisor is gone");
  // Nothing tells when another process begins to listen.
  for (const Deadline deadline = Deadline::after(kStartTime); !deadline.passed(); ::usleep(20'000)) {
    FOLDCAST_ASSIGN(const LoadedLab now, load_running_lab(name));
    const bool alive = is_alive(now.state.aggregators.at(host));
    if (alive && is_listening(now.state.holders.at(host).pid, kAggregatorPort)) return ok_status();
  }
  return timeout(
      fmt::format("the aggregator of {} does not listen again; see {}", host, lab.directory.file(host + ".log")));
}

}  // namespace

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

Status do_to_aggregator(const std::string& name, const std::string& host, AggregatorDeed deed) {
  FOLDCAST_ASSIGN(const LoadedLab lab, load_running_lab(name));
  const auto aggregator = lab.state.aggregators.find(host);
  if (aggregator == lab.state.aggregators.end()) {
    std::string known;
    for (const auto& [at, process] : lab.state.aggregators) known += (known.empty() ? "" : ", ") + at;
    return invalid_argument(
        fmt::format("there is no aggregator on '{}'; lab {} has {}", host, name, known.empty() ? "none" : known));
  }
  if (deed == AggregatorDeed::kStart) return start_again(name, lab, host);
  if (signal_if_alive(aggregator->second, signal_of(deed))) return ok_status();
  return unavailable(
      fmt::format("the aggregator of {} has ended already; see {}", host, lab.directory.file(host + ".log")));
}

}  // namespace foldcast::tools
