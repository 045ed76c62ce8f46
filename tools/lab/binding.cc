#include "tools/lab/binding.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <string>

#include "fmt/format.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

std::vector<int> allowed_processors() {
  std::vector<int> list;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return list;  // more than CPU_SETSIZE: then unbound
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) list.push_back(cpu);
  }
  return list;
}

/// Equal for the hardware threads of one core; its own where the kernel does not say.
std::string core_of(int cpu) {
  std::string path = fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu);
  return read_file(path).value_or(fmt::format("{}", cpu));
}

}  // namespace

Result<Binding> parse_binding(std::string_view text) {
  if (text == "none") return Binding::kNone;
  if (text == "core") return Binding::kCore;
  return invalid_argument(fmt::format("--bind-to '{}' is unknown; it is core or none", text));
}

std::vector<int> processors_by_core() {
  std::vector<int> left = allowed_processors();
  std::vector<int> ordered;
  while (!left.empty()) {
    std::set<std::string> seen;
    auto again =
        std::stable_partition(left.begin(), left.end(), [&](int cpu) { return seen.insert(core_of(cpu)).second; });
    ordered.insert(ordered.end(), left.begin(), again);
    left.erase(left.begin(), again);
  }
  return ordered;
}

int processor_of(Binding binding, int rank) {
  if (binding == Binding::kNone) return -1;
  std::vector<int> processors = processors_by_core();
  return processors.empty() ? -1 : processors[static_cast<std::size_t>(rank) % processors.size()];
}

}  // namespace foldcast::tools
