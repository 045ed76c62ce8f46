#include "tools/lab/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kKeptJobs = 32;

json to_json(const ProcessIdentity& process) { return {{"pid", process.pid}, {"start_time", process.start_time}}; }

ProcessIdentity identity_from(const json& value) {
  return {value.at("pid").get<pid_t>(), value.at("start_time").get<std::uint64_t>()};
}

json to_json(const std::map<std::string, ProcessIdentity>& processes) {
  json result = json::object();
  for (const auto& [name, process] : processes) result[name] = to_json(process);
  return result;
}

std::map<std::string, ProcessIdentity> identities_from(const json& value) {
  std::map<std::string, ProcessIdentity> result;
  for (const auto& [name, process] : value.items()) result[name] = identity_from(process);
  return result;
}

json spec_to_json(const LabSpec& spec) {
  return {{"name", spec.name},
          {"nodes", spec.nodes},
          {"racks", spec.racks},
          {"ranks_per_node", spec.ranks_per_node},
          {"mtu", spec.mtu},
          {"rails", spec.rails},
          {"rate", spec.rate},
          {"rail_rates", spec.rail_rates},
          {"uplink", spec.uplink ? json(*spec.uplink) : json()},
          {"aggregators", to_string(spec.aggregators)}};
}

LabSpec spec_from(const json& value) {
  LabSpec spec;
  spec.name = value.at("name");
  spec.nodes = value.at("nodes");
  spec.racks = value.at("racks");
  spec.ranks_per_node = value.at("ranks_per_node").get<std::vector<int>>();
  spec.mtu = value.at("mtu");
  spec.rails = value.at("rails");
  spec.rate = value.at("rate");
  spec.rail_rates = value.at("rail_rates").get<std::vector<std::uint64_t>>();
  if (!value.at("uplink").is_null()) spec.uplink = value.at("uplink").get<std::uint64_t>();
  auto placement = parse_placement(value.at("aggregators").get<std::string>());
  if (placement.ok()) spec.aggregators = *placement;
  return spec;
}

/// Whole or not at all: a reader never meets half a file.
Status write_file(const std::string& path, const std::string& text) {
  FOLDCAST_ASSIGN(AtomicFile file, AtomicFile::create(path));
  FOLDCAST_RETURN_IF_ERROR(file.write(text));
  return file.commit();
}

std::vector<int> job_numbers(const std::string& jobs) {
  std::vector<int> numbers;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(jobs, ignored)) {
    std::string name = entry.path().filename();
    int number = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<LabJob> load_job(const std::string& jobs, int number) {
  std::string directory = fmt::format("{}/{}", jobs, number);
  auto text = read_file(directory + "/job.json");
  if (!text) return std::nullopt;
  try {
    json value = json::parse(*text);
    return LabJob{number, identity_from(value.at("runner")), value.at("command"), value.at("ranks"), directory};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<std::string> state_root() {
  std::string root = "/run/foldcast-lab";
  if (::geteuid() != 0) {
    const char* runtime = ::getenv("XDG_RUNTIME_DIR");
    bool usable = runtime && *runtime && ::access(runtime, W_OK) == 0;
    root = usable ? std::string(runtime) + "/foldcast-lab" : fmt::format("/tmp/foldcast-lab-{}", ::geteuid());
  }
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return system_error("cannot create " + root, errno);
  struct stat info {};
  if (::lstat(root.c_str(), &info) != 0) return system_error("cannot use " + root, errno);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    return unavailable(root + " is not a directory of yours; remove it or set XDG_RUNTIME_DIR");
  }
  return root;
}

Result<Namespaces> LabState::enter(const std::string& host) const {
  auto holder = holders.find(host);
  if (holder == holders.end()) {
    auto plan = layout();
    return invalid_argument(fmt::format(
        "lab {} has no '{}'; it has {} to {}{}", spec.name, host, plan.nodes.front().name, plan.nodes.back().name,
        plan.switches.size() > 1 ? fmt::format(", rack0 to rack{} and spine", spec.racks - 1)
                                 : std::string(" and rack0")));
  }
  static constexpr const char* kAsUser[] = {"user", "mnt", "net", "uts"};
  std::span<const char* const> kinds(kAsUser);
  return Namespaces::open(holder->second.pid, user_namespace ? kinds : kinds.subspan(1));
}

std::string LabState::aggregator_list() const {
  std::string list;
  for (const LabHost& host : layout().switches) {
    if (!aggregators.contains(host.name)) continue;
    list += fmt::format("{}{}={}:{}", list.empty() ? "" : ",", host.name, host.address, kAggregatorPort);
  }
  return list;
}

bool StateDirectory::exists() const { return ::access(path_.c_str(), F_OK) == 0; }

Status StateDirectory::create() const {
  std::error_code error;
  fs::create_directories(path_ + "/jobs", error);
  return error ? system_error("cannot create " + path_, error.value()) : ok_status();
}

void StateDirectory::remove() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Status StateDirectory::save(const LabState& state) const {
  json value = {{"spec", spec_to_json(state.spec)},        {"boot_id", state.boot_id},
                {"supervisor", to_json(state.supervisor)}, {"user_namespace", state.user_namespace},
                {"holders", to_json(state.holders)},       {"aggregators", to_json(state.aggregators)}};
  FOLDCAST_RETURN_IF_ERROR(write_file(file("topology.conf"), state.layout().topology_conf()));
  return write_file(file("lab.json"), value.dump(2) + "\n");
}

std::optional<LabState> StateDirectory::load() const {
  auto text = read_file(file("lab.json"));
  if (!text) return std::nullopt;
  try {
    json value = json::parse(*text);
    LabState state;
    state.spec = spec_from(value.at("spec"));
    state.boot_id = value.at("boot_id");
    state.supervisor = identity_from(value.at("supervisor"));
    state.user_namespace = value.at("user_namespace");
    state.holders = identities_from(value.at("holders"));
    state.aggregators = identities_from(value.at("aggregators"));
    return state;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

bool is_up(const LabState& state) { return state.boot_id == current_boot_id() && is_alive(state.supervisor); }

Result<LabJob> register_job(const StateDirectory& directory, const std::string& command, int ranks) {
  std::string jobs = directory.file("jobs");
  auto numbers = job_numbers(jobs);
  std::error_code ignored;
  for (std::size_t i = 0; i + kKeptJobs < numbers.size(); ++i) {
    auto old = load_job(jobs, numbers[i]);
    if (!old || !is_alive(old->runner)) fs::remove_all(fmt::format("{}/{}", jobs, numbers[i]), ignored);
  }
  LabJob job;
  job.number = numbers.empty() ? 1 : numbers.back() + 1;
  // Making a directory fails where it exists, so that two jobs at once never get one number.
  while (::mkdir(fmt::format("{}/{}", jobs, job.number).c_str(), 0755) != 0) {
    if (errno != EEXIST) return system_error("cannot create a job directory in " + jobs, errno);
    ++job.number;
  }
  job.directory = fmt::format("{}/{}", jobs, job.number);
  job.runner = identify(::getpid()).value_or(ProcessIdentity{});
  job.command = command;
  job.ranks = ranks;
  json value = {{"runner", to_json(job.runner)}, {"command", command}, {"ranks", ranks}};
  std::string text = value.dump(2, ' ', false, json::error_handler_t::replace);
  FOLDCAST_RETURN_IF_ERROR(write_file(job.directory + "/job.json", text + "\n"));
  return job;
}

void end_job(const LabJob& job) { ::unlink((job.directory + "/job.json").c_str()); }

std::vector<LabJob> running_jobs(const StateDirectory& directory) {
  std::vector<LabJob> jobs;
  std::string path = directory.file("jobs");
  for (int number : job_numbers(path)) {
    auto job = load_job(path, number);
    if (job && is_alive(job->runner)) jobs.push_back(*std::move(job));
  }
  return jobs;
}

std::vector<std::string> lab_names(const std::string& root) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    std::string name = entry.path().filename();
    if (validate_lab_name(name).ok()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<UniqueFd> lock_labs(const std::string& root, Deadline deadline) {
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error("cannot open " + root, errno);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error("cannot lock " + root, errno);
    if (deadline.passed())
      return timeout("another 'foldcast lab' command holds " + root + "; try again when it is done");
    ::usleep(20'000);
  }
  return fd;
}

std::string current_boot_id() {
  std::string id = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

}  // namespace foldcast::tools
