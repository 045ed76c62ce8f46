#include "core/bootstrap/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/base/hash.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/host_list.h"
#include "core/bootstrap/pmi.h"
#include "core/bootstrap/resolve.h"
#include "core/bootstrap/socket.h"

namespace foldcast::bootstrap {
namespace {

using Environment = std::function<std::optional<std::string>(const std::string&)>;

constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxPort = 65535;
constexpr int kFirstDerivedPort = 20000;
constexpr int kDerivedPorts = 10000;

/// Typed look-ups whose errors name the variable.
class Variables {
 public:
  explicit Variables(const Environment& env) : env_(env) {}

  std::optional<std::string> text(const std::string& name) const {
    auto value = env_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  bool has(const std::string& name) const { return text(name).has_value(); }
  bool has_any(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (has(name)) return true;
    }
    return false;
  }
  Result<std::string> required(const std::string& name, std::string_view launcher) const {
    if (auto value = text(name)) return *value;
    return invalid_argument(fmt::format("{}'s environment is incomplete: {} is not set", launcher, name));
  }
  Result<std::optional<int>> number(const std::string& name, int low, int high) const {
    auto value = text(name);
    if (!value) return std::optional<int>();
    int result = 0;
    auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
    if (error != std::errc{} || end != value->data() + value->size() || result < low || result > high) {
      return invalid_argument(fmt::format("{}=\"{}\": expected a number from {} to {}", name, *value, low, high));
    }
    return std::optional(result);
  }

 private:
  const Environment& env_;
};

/// What each launcher calls a process's place.
struct Names {
  std::string launcher;
  std::string rank, size, local_rank;
};

Result<LaunchInfo> read_place(const Variables& variables, const Names& names) {
  LaunchInfo info;
  info.launcher = names.launcher;
  for (const auto& name : {names.rank, names.size}) {
    FOLDCAST_RETURN_IF_ERROR(variables.required(name, names.launcher).status());
  }
  FOLDCAST_ASSIGN(auto size, variables.number(names.size, 1, kMaxRanks));
  FOLDCAST_ASSIGN(auto rank, variables.number(names.rank, 0, kMaxRanks));
  info.size = *size;
  info.rank = *rank;
  if (info.rank >= info.size) {
    return invalid_argument(fmt::format("{}={} contradicts {}={}: ranks are 0 to {}", names.rank, info.rank, names.size,
                                        info.size, info.size - 1));
  }
  FOLDCAST_ASSIGN(auto local_rank, variables.number(names.local_rank, 0, kMaxRanks));
  info.local_rank = local_rank.value_or(0);
  return info;
}

/// Equal on all ranks of a job, and most likely different from other jobs'.
std::uint16_t derived_port(std::string_view identity) {
  return static_cast<std::uint16_t>(kFirstDerivedPort + static_cast<int>(fnv1a(identity) % kDerivedPorts));
}

/// The first host of Slurm's node list: "rack[03-05,9]-n[1-4],other" begins with "rack03-n1".
Result<std::optional<std::string>> first_slurm_host(const Variables& variables) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    auto list = variables.text(name);
    if (!list) continue;
    auto hosts = expand_host_list(*list);
    if (!hosts.ok()) return hosts.status().with_context(name);
    return std::optional(std::move(hosts->front()));
  }
  return std::optional<std::string>();
}

/// Sets the store's place, with FOLDCAST_STORE and FOLDCAST_STORE_PORT over `fallback`.
Status place_store(const Variables& variables, const HostPort& fallback, LaunchInfo& info) {
  HostPort address = fallback;
  FOLDCAST_ASSIGN(auto port, variables.number("FOLDCAST_STORE_PORT", 1, kMaxPort));
  if (port) address.port = static_cast<std::uint16_t>(*port);
  if (auto store = variables.text("FOLDCAST_STORE")) {
    auto parsed = parse_host_port(*store);
    if (!parsed.ok()) return parsed.status().with_context("FOLDCAST_STORE");
    address = *std::move(parsed);
  }
  info.store_host = address.host;
  info.store_port = address.port;
  return {};
}

// --- Own variables, torchrun -----------------------------------------------------------------------------------------

Result<LaunchInfo> resolve_own(const Variables& variables) {
  FOLDCAST_ASSIGN(auto info,
                  read_place(variables, {"foldcast", "FOLDCAST_RANK", "FOLDCAST_SIZE", "FOLDCAST_LOCAL_RANK"}));
  if (info.size > 1) FOLDCAST_RETURN_IF_ERROR(variables.required("FOLDCAST_STORE", "foldcast").status());
  FOLDCAST_RETURN_IF_ERROR(place_store(variables, {}, info));
  return info;
}

Result<LaunchInfo> resolve_torchrun(const Variables& variables) {
  FOLDCAST_ASSIGN(auto info, read_place(variables, {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"}));
  HostPort store;
  if (info.size > 1 && !variables.has("FOLDCAST_STORE")) {
    FOLDCAST_ASSIGN(store.host, variables.required("MASTER_ADDR", "torchrun"));
    FOLDCAST_RETURN_IF_ERROR(variables.required("MASTER_PORT", "torchrun").status());
    // torchrun's own store listens on MASTER_PORT; 65535 leaves no port after it.
    FOLDCAST_ASSIGN(auto port, variables.number("MASTER_PORT", 1, kMaxPort - 1));
    store.port = static_cast<std::uint16_t>(*port + 1);
  }
  FOLDCAST_RETURN_IF_ERROR(place_store(variables, store, info));
  return info;
}

// --- Open MPI --------------------------------------------------------------------------------------------------------

Result<LaunchInfo> resolve_open_mpi(const Variables& variables) {
  FOLDCAST_ASSIGN(auto info, read_place(variables, {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                                    "OMPI_COMM_WORLD_LOCAL_RANK"}));
  FOLDCAST_ASSIGN(auto local_size, variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMaxRanks));
  HostPort store;
  if (local_size.value_or(0) == info.size) {
    store.host = "127.0.0.1";
  } else if (!variables.has("FOLDCAST_STORE")) {
    FOLDCAST_ASSIGN(auto slurm_host, first_slurm_host(variables));
    store.host = slurm_host.value_or("");
  }
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}) {
    if (auto identity = variables.text(name); identity && store.port == 0) store.port = derived_port(*identity);
  }
  FOLDCAST_RETURN_IF_ERROR(place_store(variables, store, info));
  if (info.size > 1 && (info.store_host.empty() || info.store_port == 0)) {
    return invalid_argument(
        fmt::format("Open MPI does not tell {}; run with: mpirun -x FOLDCAST_STORE=<rank 0's host>:<free port>",
                    info.store_host.empty() ? "the host of rank 0" : "the job's identity to derive a port from"));
  }
  return info;
}

// --- PMI -------------------------------------------------------------------------------------------------------------

/// The address other nodes reach this one at: the source of the default route, else the first that is not loopback.
std::string own_address() {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(9);
  inet_pton(AF_INET, "192.0.2.1", &v4.sin_addr);  // documentation range (RFC 5737): connecting UDP sends nothing
  address.length = sizeof v4;
  char text[INET_ADDRSTRLEN];
  if (::connect(fd.get(), address.get(), address.length) == 0 &&
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) == 0 &&
      inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text) != nullptr) {
    return text;
  }
  std::string found = "127.0.0.1";
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    bool is_usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                     (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_usable) continue;
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof text);
    found = text;
    break;
  }
  ::freeifaddrs(list);
  return found;
}

/// A port that is free now. Somebody else can take it before the store listens; that error names it.
Result<std::uint16_t> free_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return system_error("find a free port for the store", errno);
  }
  return ntohs(address.sin_port);
}

Result<HostPort> exchange_over_pmi(const Variables& variables, const LaunchInfo& info,
                                   std::chrono::milliseconds limit) {
  FOLDCAST_ASSIGN(auto fd, variables.number("PMI_FD", 0, 1 << 20));
  if (!fd) {
    return invalid_argument("PMI_FD is not set, so rank 0's address cannot be exchanged; set FOLDCAST_STORE=host:port");
  }
  if (::fcntl(*fd, F_GETFD) < 0) {
    return invalid_argument(
        fmt::format("PMI_FD={} is not open in this process (a child of the rank?); set FOLDCAST_STORE=host:port", *fd));
  }
  std::string proposal;
  if (info.rank == 0) {
    FOLDCAST_ASSIGN(auto local_size, variables.number("MPI_LOCALNRANKS", 1, kMaxRanks));
    FOLDCAST_ASSIGN(auto wanted, variables.number("FOLDCAST_STORE_PORT", 1, kMaxPort));
    int port = wanted.value_or(0);
    if (!wanted) {
      FOLDCAST_ASSIGN(port, free_port());
    }
    proposal = fmt::format("{}:{}", local_size == info.size ? "127.0.0.1" : own_address(), port);
  }
  PmiClient pmi(*fd, Deadline::after(limit));
  auto agreed = pmi.publish_from_rank_0(info.rank, "foldcast-store", proposal);
  if (!agreed.ok()) return agreed.status().with_context("exchanging rank 0's address over PMI");
  auto parsed = parse_host_port(*agreed);
  if (!parsed.ok()) return parsed.status().with_context("rank 0's address over PMI");
  return parsed;
}

Result<LaunchInfo> resolve_pmi(const Variables& variables, std::chrono::milliseconds setup_timeout) {
  FOLDCAST_ASSIGN(auto info, read_place(variables, {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}));
  if (info.size == 1 || variables.has("FOLDCAST_STORE")) {
    FOLDCAST_RETURN_IF_ERROR(place_store(variables, {}, info));
    return info;
  }
  FOLDCAST_ASSIGN(auto store, exchange_over_pmi(variables, info, setup_timeout));
  info.store_host = store.host;
  info.store_port = store.port;
  return info;
}

// --- Slurm -----------------------------------------------------------------------------------------------------------

Result<LaunchInfo> resolve_slurm(const Variables& variables) {
  // The step's own number first: SLURM_NTASKS may be the whole job's.
  const char* size = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  FOLDCAST_ASSIGN(auto info, read_place(variables, {"Slurm", "SLURM_PROCID", size, "SLURM_LOCALID"}));
  HostPort store;
  if (info.size > 1 && !variables.has("FOLDCAST_STORE")) {
    FOLDCAST_ASSIGN(auto host, first_slurm_host(variables));
    if (!host) {
      return invalid_argument("Slurm's environment is incomplete: SLURM_STEP_NODELIST is not set; set FOLDCAST_STORE");
    }
    FOLDCAST_ASSIGN(auto job, variables.required("SLURM_JOB_ID", "Slurm"));
    store = {*host, derived_port(job + "." + variables.text("SLURM_STEP_ID").value_or("0"))};
  }
  FOLDCAST_RETURN_IF_ERROR(place_store(variables, store, info));
  return info;
}

}  // namespace

Result<LaunchInfo> resolve_launch(const std::function<std::optional<std::string>(const std::string&)>& env,
                                  std::chrono::milliseconds setup_timeout) {
  Variables variables(env);
  if (variables.has_any({"FOLDCAST_RANK", "FOLDCAST_SIZE"})) return resolve_own(variables);
  if (variables.has_any({"RANK", "WORLD_SIZE"})) return resolve_torchrun(variables);
  if (variables.has_any({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) return resolve_open_mpi(variables);
  if (variables.has_any({"PMI_RANK", "PMI_SIZE"})) return resolve_pmi(variables, setup_timeout);
  if (variables.has("SLURM_PROCID")) return resolve_slurm(variables);
  LaunchInfo info;
  info.launcher = "single process";
  return info;
}

}  // namespace foldcast::bootstrap
