#include "tools/foldcast/info_facts.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "core/api/foldcast.h"
#include "core/base/config.h"
#include "core/base/status.h"
#include "core/bootstrap/launcher.h"
#include "hierarchy/topology.h"
#include "kernels/reducer.h"

namespace foldcast::tools {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("GCC {}", __VERSION__);
#endif
}

std::string assertions() {
#if defined(NDEBUG)
  return "release (no assertions)";
#else
  return "debug (assertions on)";
#endif
}

/// CUDA's driver, asked through the four functions that need no context.
std::string cuda() {
  Library library(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return "unavailable: no driver (libcuda.so.1 not found)";
  auto initialize = reinterpret_cast<int (*)(unsigned)>(::dlsym(library.get(), "cuInit"));
  auto version_of = reinterpret_cast<int (*)(int*)>(::dlsym(library.get(), "cuDriverGetVersion"));
  auto count_of = reinterpret_cast<int (*)(int*)>(::dlsym(library.get(), "cuDeviceGetCount"));
  if (initialize == nullptr || version_of == nullptr || count_of == nullptr) {
    return "unavailable: libcuda.so.1 lacks cuInit, cuDriverGetVersion or cuDeviceGetCount";
  }
  if (int error = initialize(0); error != 0) return fmt::format("unavailable: cuInit answers error {}", error);
  int version = 0;
  int devices = 0;
  if (version_of(&version) != 0 || count_of(&devices) != 0) return "unavailable: the driver does not answer";
  return fmt::format("driver for CUDA {}.{}, {} device{}; this build reduces host memory only", version / 1000,
                     version % 1000 / 10, devices, devices == 1 ? "" : "s");
}

std::string sharp() {
  Library library(::dlopen("libsharp_coll.so", RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return "unavailable: libsharp_coll.so not found";
  return "libsharp_coll.so found; this build does not use it";
}

int count_objects(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

}  // namespace

Facts build_facts() {
  return {{"version", foldcast_version()},
          {"compiler", compiler()},
          {"build", assertions()},
          {"sanitizers", *FOLDCAST_SANITIZE ? FOLDCAST_SANITIZE : "none"},
          {"CPU kernels", std::string(kernels::cpu_target())}};
}

Facts machine_facts() {
  Facts facts;
  Result<Config> config = Config::from_environment();
  Result<hierarchy::HostIdentity> host = hierarchy::this_host(config.ok() ? config->hostname : "");
  if (host.ok()) {
    facts.emplace_back("host", host->hostname);
    facts.emplace_back("this process", fmt::format("may run on {} cores", host->cores));
  } else {
    facts.emplace_back("host", "unavailable: " + host.status().message());
  }
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return facts;
  std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> owner(topology, hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) {
    facts.emplace_back("topology", "unavailable: hwloc cannot read it");
    return facts;
  }
  const char* model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
  hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  if (model == nullptr && package != nullptr) model = hwloc_obj_get_info_by_name(package, "CPUModel");
  facts.emplace_back("CPU", model != nullptr ? model : "unknown");
  facts.emplace_back("topology",
                     fmt::format("{} packages, {} cores, {} hardware threads, {} NUMA nodes",
                                 count_objects(topology, HWLOC_OBJ_PACKAGE), count_objects(topology, HWLOC_OBJ_CORE),
                                 count_objects(topology, HWLOC_OBJ_PU), count_objects(topology, HWLOC_OBJ_NUMANODE)));
  facts.emplace_back(
      "memory",
      fmt::format("{:.1f} GiB", static_cast<double>(hwloc_get_root_obj(topology)->total_memory) / (1u << 30)));
  return facts;
}

Facts accelerator_facts() { return {{"CUDA", cuda()}, {"SHARP", sharp()}}; }

Facts launch_facts() {
  Result<bootstrap::LaunchInfo> launch =
      bootstrap::resolve_launch([](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      });
  if (!launch.ok()) return {{"launcher", "contradictory: " + launch.status().message()}};
  Facts facts = {{"launcher", launch->launcher},
                 {"rank", fmt::format("{} of {}, local rank {}", launch->rank, launch->size, launch->local_rank)}};
  if (launch->size > 1) facts.emplace_back("store", fmt::format("{}:{}", launch->store_host, launch->store_port));
  return facts;
}

}  // namespace foldcast::tools
