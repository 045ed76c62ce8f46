#include "hierarchy/topology.h"

#include <hwloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <map>
#include <memory>

#include "core/base/wire.h"

namespace foldcast::hierarchy {
namespace {

// Serialised form: version (1 byte), then hostname, kernel, node and core set.
constexpr std::uint8_t kVersion = 2;
constexpr int kMaxCores = 1 << 16;
constexpr std::size_t kMaxCoreText = 16384;
constexpr std::size_t kMaxText = 1024;

Result<std::string> boot_id() {
  const char* path = "/proc/sys/kernel/random/boot_id";
  std::ifstream file(path);
  std::string id;
  if (!(file >> id)) return unavailable(std::string("cannot read ") + path + "; is /proc mounted?");
  return id;
}

/// "inode of the network namespace : device of the shared-memory mount".
Result<std::string> namespaces() {
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) != 0) return system_error("stat /proc/self/ns/net", errno);
  struct stat memory {};
  const bool mounted = ::stat("/dev/shm", &memory) == 0;
  return std::to_string(network.st_ino) + ":" + (mounted ? std::to_string(memory.st_dev) : "none");
}

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};

using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

/// Null when out of memory, or when the text is no list of cores that ends.
Bitmap parse_cores(const std::string& text) {
  Bitmap cores(hwloc_bitmap_alloc());
  if (!cores || hwloc_bitmap_list_sscanf(cores.get(), text.c_str()) != 0) return nullptr;
  const int last = hwloc_bitmap_last(cores.get());
  if (last < 0 || last >= kMaxCores) return nullptr;
  return cores;
}

std::string print_cores(const hwloc_bitmap_s* cores) {
  std::string text(static_cast<std::size_t>(std::max(0, hwloc_bitmap_list_snprintf(nullptr, 0, cores))), '\0');
  hwloc_bitmap_list_snprintf(text.data(), text.size() + 1, cores);
  return text;
}

std::uint32_t count_of(const hwloc_bitmap_s* cores) {
  return static_cast<std::uint32_t>(std::max(1, hwloc_bitmap_weight(cores)));
}

/// What this process may run on. Only cores are wanted, and binding must not move while hwloc looks: no I/O, caches or
/// CPUID probing.
Result<Bitmap> own_cores() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return resource_exhausted("hwloc cannot start: out of memory");
  std::unique_ptr<hwloc_topology, TopologyDeleter> topology(raw);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // With the cores that only others may use, so that numbers are the same in every container.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING | HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  if (hwloc_topology_load(raw) != 0) return system_error("hwloc cannot read this machine's topology", errno);

  Bitmap bound(hwloc_bitmap_alloc()), cores(hwloc_bitmap_alloc());
  if (!bound || !cores) return resource_exhausted("hwloc cannot hold a CPU set: out of memory");
  if (hwloc_get_cpubind(raw, bound.get(), HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(bound.get())) {
    hwloc_bitmap_copy(bound.get(), hwloc_topology_get_allowed_cpuset(raw));
  }
  hwloc_bitmap_and(bound.get(), bound.get(), hwloc_topology_get_allowed_cpuset(raw));

  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core)) != nullptr;) {
    if (hwloc_bitmap_intersects(core->cpuset, bound.get())) hwloc_bitmap_set(cores.get(), core->logical_index);
  }
  // Where the system does not tell which processors make a core, each is one.
  if (hwloc_bitmap_iszero(cores.get())) hwloc_bitmap_copy(cores.get(), bound.get());
  if (hwloc_bitmap_iszero(cores.get())) hwloc_bitmap_set(cores.get(), 0);
  return cores;
}

}  // namespace

std::string HostIdentity::serialize() const {
  WireWriter writer;
  writer.put(kVersion);
  // A longer name is cut, on every rank alike because each writes its own: identity only needs equality.
  for (const std::string* text : {&hostname, &kernel, &node}) writer.put_text(*text, kMaxText);
  writer.put_text(core_set, kMaxCoreText);
  return writer.take();
}

Result<HostIdentity> HostIdentity::parse(std::string_view bytes) {
  WireReader reader(bytes);
  const auto version = reader.get<std::uint8_t>();
  if (!reader.ok()) return invalid_argument("a host identity of 0 bytes; the peer speaks something else");
  if (version != kVersion) {
    return invalid_argument("a host identity of version " + std::to_string(version) + ", this is version " +
                            std::to_string(kVersion) + "; run the same Foldcast on all ranks");
  }
  HostIdentity identity;
  for (std::string* text : {&identity.hostname, &identity.kernel, &identity.node}) *text = reader.get_text(kMaxText);
  identity.core_set = reader.get_text(kMaxCoreText);
  const Bitmap cores = parse_cores(identity.core_set);
  // In the one way it is printed, so that there is one spelling of an identity.
  if (!reader.complete() || cores == nullptr || print_cores(cores.get()) != identity.core_set) {
    return invalid_argument("a host identity of " + std::to_string(bytes.size()) +
                            " bytes that is cut short or malformed; the peer speaks something else");
  }
  identity.cores = count_of(cores.get());
  return identity;
}

Result<HostIdentity> this_host(const std::string& hostname) {
  HostIdentity identity;
  identity.hostname = hostname;
  if (hostname.empty()) {
    char name[HOST_NAME_MAX + 1] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return system_error("gethostname", errno);
    identity.hostname = name;
  }
  FOLDCAST_ASSIGN(identity.kernel, boot_id());
  FOLDCAST_ASSIGN(const std::string shared, namespaces());
  FOLDCAST_ASSIGN(const Bitmap cores, own_cores());
  identity.core_set = print_cores(cores.get());
  identity.cores = count_of(cores.get());
  identity.node = identity.kernel + ":" + shared;
  return identity;
}

std::size_t Layout::smallest_node() const {
  std::size_t smallest = nodes.empty() ? 0 : nodes.front().size();
  for (const auto& ranks : nodes) smallest = std::min(smallest, ranks.size());
  return smallest;
}

Layout Layout::from(std::span<const HostIdentity> ranks) {
  Layout layout;
  std::map<std::string_view, std::int32_t> number_of;
  struct Machine {
    std::uint32_t ranks = 0;
    Bitmap cores;
  };
  std::map<std::string_view, Machine> machines;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const HostIdentity& identity = ranks[rank];
    auto [entry, fresh] = number_of.try_emplace(identity.node, static_cast<std::int32_t>(layout.nodes.size()));
    if (fresh) {
      layout.nodes.emplace_back();
      layout.hostnames.push_back(identity.hostname);
    }
    auto& members = layout.nodes[static_cast<std::size_t>(entry->second)];
    layout.node_of.push_back(entry->second);
    layout.local_rank_of.push_back(static_cast<std::int32_t>(members.size()));
    members.push_back(static_cast<std::int32_t>(rank));
    Machine& machine = machines[identity.kernel];
    layout.ranks_per_kernel = std::max(layout.ranks_per_kernel, ++machine.ranks);
    Bitmap cores = parse_cores(identity.core_set);
    if (machine.cores == nullptr) {
      machine.cores = std::move(cores);
    } else if (cores != nullptr) {
      hwloc_bitmap_or(machine.cores.get(), machine.cores.get(), cores.get());
    }
  }
  bool first = true;
  for (const auto& [kernel, machine] : machines) {
    const std::uint32_t cores = machine.cores == nullptr ? 1 : count_of(machine.cores.get());
    layout.cores = first ? cores : std::min(layout.cores, cores);
    layout.oversubscribed = layout.oversubscribed || machine.ranks > cores;
    first = false;
  }
  return layout;
}

Layout Layout::subset(std::span<const std::int32_t> ranks) const {
  Layout part;
  part.ranks_per_kernel = ranks_per_kernel;
  part.cores = cores;
  part.oversubscribed = oversubscribed;
  std::map<std::int32_t, std::int32_t> number_of;  // old node to new
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int32_t node = node_of[static_cast<std::size_t>(ranks[rank])];
    auto [entry, fresh] = number_of.try_emplace(node, static_cast<std::int32_t>(part.nodes.size()));
    if (fresh) {
      part.nodes.emplace_back();
      part.hostnames.push_back(hostnames[static_cast<std::size_t>(node)]);
    }
    auto& members = part.nodes[static_cast<std::size_t>(entry->second)];
    part.node_of.push_back(entry->second);
    part.local_rank_of.push_back(static_cast<std::int32_t>(members.size()));
    members.push_back(static_cast<std::int32_t>(rank));
  }
  return part;
}

Layout Layout::uniform(std::uint32_t nodes, std::uint32_t ranks_per_node) {
  Layout layout;
  layout.ranks_per_kernel = std::max(1u, ranks_per_node);
  layout.cores = layout.ranks_per_kernel;
  std::int32_t rank = 0;
  for (std::uint32_t node = 0; node < nodes && ranks_per_node > 0; ++node) {
    layout.hostnames.push_back("node" + std::to_string(node));
    auto& members = layout.nodes.emplace_back();
    for (std::uint32_t local = 0; local < ranks_per_node; ++local) {
      layout.node_of.push_back(static_cast<std::int32_t>(node));
      layout.local_rank_of.push_back(static_cast<std::int32_t>(local));
      members.push_back(rank++);
    }
  }
  return layout;
}

}  // namespace foldcast::hierarchy
