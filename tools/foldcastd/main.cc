// foldcastd: an aggregator of reductions, for any host, DPU or switch CPU. Needs no root.

#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/log.h"
#include "offload/aggregator/daemon.h"
#include "transports/ucx/ucx.h"

namespace foldcast::tools {
namespace {

struct Settings {
  offload::DaemonOptions daemon;
  std::string listen = ":0";
  std::string key_file, devices, stats_file;
  int ready_fd = -1;
};

void declare(CLI::App& app, Settings& settings) {
  auto& daemon = settings.daemon;
  auto& limits = daemon.limits;
  app.add_option("--listen", settings.listen, "host:port to listen on; no host: all addresses; port 0: any")
      ->capture_default_str();
  app.add_option("--name", daemon.name, "what errors and logs call this aggregator")->default_str("host name");
  app.add_option("--key-file", settings.key_file,
                 "children and parents must prove that they have this file's contents");
  app.add_option("--window", daemon.window, "fragments in flight per group, at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--fragment", daemon.fragment, "bytes per fragment, at most")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(64, 16 << 20))
      ->capture_default_str();
  app.add_option("--max-groups", limits.groups, "groups at a time; 0: no limit")->capture_default_str();
  app.add_option("--max-groups-per-job", limits.groups_per_job, "groups of one job; 0: no limit of its own")
      ->capture_default_str();
  app.add_option("--max-memory", limits.memory, "bytes of slots in all; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-memory-per-job", limits.memory_per_job, "bytes of slots of one job; 0: no limit of its own")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--devices", settings.devices, "network devices for data, comma-separated; default: all that are up");
  app.add_option("--stats-file", settings.stats_file, "write counters as JSON here at exit and on SIGUSR1");
  app.add_option("--ready-fd", settings.ready_fd, "write host:port and a newline to this descriptor when ready");
}

Result<std::string> read_key(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalid_argument("cannot read the key file " + path);
  std::string key(std::istreambuf_iterator<char>(file), {});
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) return invalid_argument("the key file " + path + " is empty");
  return key;
}

/// Like split_control, but the host may be missing.
Status read_listen(Settings& settings) {
  const bool any = settings.listen.starts_with(":");
  FOLDCAST_ASSIGN(auto address, offload::split_control(any ? "*" + settings.listen : settings.listen));
  settings.daemon.host = any ? "" : address.host;
  settings.daemon.port = address.port;
  return ok_status();
}

std::string own_host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

/// Whole or not at all: a reader never sees half a file.
Status write_stats(const offload::Daemon& daemon, const Settings& settings) {
  const auto stats = daemon.stats();
  const nlohmann::json json = {{"name", settings.daemon.name},
                               {"contributions", stats.data.contributions},
                               {"results", stats.data.results},
                               {"bytes_in", stats.data.bytes_in},
                               {"bytes_out", stats.data.bytes_out},
                               {"groups", stats.groups},
                               {"jobs", stats.jobs},
                               {"groups_granted", stats.groups_granted},
                               {"groups_failed", stats.groups_failed},
                               {"memory", stats.memory},
                               {"peak_memory", stats.peak_memory},
                               {"strangers", stats.strangers},
                               {"dropped", stats.dropped},
                               {"rejects", stats.rejects}};
  const std::string partial = settings.stats_file + ".partial";
  std::ofstream file(partial);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) return system_error("write " + partial, errno);
  if (std::rename(partial.c_str(), settings.stats_file.c_str()) != 0) {
    return system_error("rename to " + settings.stats_file, errno);
  }
  return ok_status();
}

void report_stats(const offload::Daemon& daemon, const Settings& settings) {
  if (settings.stats_file.empty()) return;
  if (Status status = write_stats(daemon, settings); !status.ok()) log().error("statistics: {}", status.to_string());
}

Status announce(const offload::Daemon& daemon, const Settings& settings) {
  const std::string host = settings.daemon.host.empty() ? own_host_name() : settings.daemon.host;
  const std::string address = host + ":" + std::to_string(daemon.port());
  std::cout << "foldcastd: listening on " << address << std::endl;
  if (settings.ready_fd < 0) return ok_status();
  const std::string line = address + "\n";
  if (::write(settings.ready_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return system_error("--ready-fd " + std::to_string(settings.ready_fd), errno);
  }
  ::close(settings.ready_fd);
  return ok_status();
}

/// The signals as a descriptor, so that the daemon's one wait covers them.
Result<UniqueFd> take_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return system_error("sigprocmask", errno);
  UniqueFd signals(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals) return system_error("signalfd", errno);
  return signals;
}

Status serve(Settings& settings) {
  FOLDCAST_RETURN_IF_ERROR(read_listen(settings));
  if (settings.daemon.name.empty()) settings.daemon.name = own_host_name();
  if (!settings.key_file.empty()) {
    FOLDCAST_ASSIGN(settings.daemon.key, read_key(settings.key_file));
  }
  FOLDCAST_ASSIGN(const UniqueFd signals, take_signals());
  settings.daemon.interrupt_fd = signals.get();
  const auto make_transport = [&](std::uint64_t token) {
    transports::UcxOptions options;
    options.token = token;
    options.devices = settings.devices;
    return transports::make_ucx(options);
  };
  // A machine without a usable network says so now, not at the first join.
  if (auto probe = make_transport(0); !probe.ok()) return probe.status();
  FOLDCAST_ASSIGN(auto daemon, offload::Daemon::create(settings.daemon, make_transport));
  FOLDCAST_RETURN_IF_ERROR(announce(*daemon, settings));
  for (bool serving = true; serving;) {
    if (daemon->step(std::chrono::hours(1))) continue;
    signalfd_siginfo info{};
    while (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGUSR1) {
        report_stats(*daemon, settings);
      } else {
        serving = false;
      }
    }
  }
  daemon->farewell();
  report_stats(*daemon, settings);
  return ok_status();
}

}  // namespace
}  // namespace foldcast::tools

int main(int argc, char** argv) {
  CLI::App app{"foldcastd: reduces contributions of the ranks below it and casts the results back", "foldcastd"};
  foldcast::tools::Settings settings;
  foldcast::tools::declare(app, settings);
  CLI11_PARSE(app, argc, argv);
  const foldcast::Status status = foldcast::tools::serve(settings);
  if (status.ok()) return 0;
  std::cerr << "foldcastd: " << status.to_string() << '\n';
  return 1;
}
