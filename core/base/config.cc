#include "core/base/config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/log.h"
#include "core/base/unique_fd.h"

extern char** environ;

namespace foldcast {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kPrefix = "FOLDCAST_";
constexpr std::string_view kTestPrefix = "FOLDCAST_TEST_";  // knobs of the test suite, not of the product
constexpr std::size_t kMaxFileBytes = 1u << 20;

// --- Values ----------------------------------------------------------------------------------------------------------

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct NumberWithUnit {
  double number;
  std::string_view unit;
};

std::optional<NumberWithUnit> split_unit(std::string_view text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  return NumberWithUnit{number, unit};
}

Status read_timeout(std::string_view text, std::chrono::milliseconds& out) {
  FOLDCAST_ASSIGN(auto value, parse_duration(text));
  if (value < 1ms || value > 24h) return invalid_argument("expected a time from 1ms to 24h");
  out = value;
  return {};
}

template <typename T>
Status read_integer(std::string_view text, T low, T high, T& out) {
  auto value = parse_number<T>(text);
  if (!value || *value < low || *value > high) {
    return invalid_argument(fmt::format("expected a whole number from {} to {}", low, high));
  }
  out = *value;
  return {};
}

Status read_non_negative(std::string_view text, double& out) {
  auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0) return invalid_argument("expected a number, 0 or more");
  out = *value;
  return {};
}

Status read_one_of(std::string_view text, std::span<const std::string_view> choices, std::string* out = nullptr) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return invalid_argument(fmt::format("expected one of {}", fmt::join(choices, ", ")));
  }
  if (out != nullptr) *out = text;
  return {};
}

Status read_text(std::string_view text, std::string& out) {
  out = text;
  return {};
}

constexpr std::size_t kMostRails = 8;

Status read_rails(std::string_view text, std::vector<std::string>& out) {
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    out.emplace_back(text.substr(0, comma));
    const bool again = std::count(out.begin(), out.end(), out.back()) > 1;
    if (out.back().empty() || again || out.size() > kMostRails || comma + 1 == text.size()) {
      return invalid_argument(fmt::format("expected up to {} different devices, such as eth0,eth1", kMostRails));
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

constexpr std::array<std::string_view, 3> kPaths = {"auto", "offload", "host"};
constexpr std::array<std::string_view, 3> kCrossMemory = {"auto", "on", "off"};
constexpr std::array<std::string_view, 4> kWireFormats = {"exact", "bfloat16", "float16", "float8"};
constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info", "warn", "error", "off"};

// --- The table -------------------------------------------------------------------------------------------------------

struct Setting {
  ConfigEntry entry;
  Status (*apply)(Config& config, std::string_view text);
};

constexpr Setting kSettings[] = {
    {{"timeout", "5s",
      "How long a call may see nothing move before it fails: 1ms to 24h; a plain number is milliseconds."},
     [](Config& c, std::string_view v) { return read_timeout(v, c.timeout); }},
    {{"setup_timeout", "30s", "How long joining a job and making a communicator may take: 1ms to 24h."},
     [](Config& c, std::string_view v) { return read_timeout(v, c.setup_timeout); }},
    {{"job_key", "",
      "Secret that all ranks of a job prove to each other; empty: the control plane is unauthenticated."},
     [](Config& c, std::string_view v) { return read_text(v, c.job_key); }},
    {{"job_key_file", "", "File with the job key, accessible by its owner only (chmod 600); instead of job_key."},
     [](Config&, std::string_view) { return Status(); }},
    {{"path", "auto", "Where reductions run: auto (whatever is priced cheaper), offload or host."},
     [](Config& c, std::string_view v) { return read_one_of(v, kPaths, &c.path); }},
    {{"plan", "", "Name of the plan to force, as `foldcast explain` prints it; empty: the cheapest."},
     [](Config& c, std::string_view v) { return read_text(v, c.plan); }},
    {{"transport", "ucx", "Name of the transport between nodes, as `foldcast info` lists them."},
     [](Config& c, std::string_view v) { return read_text(v, c.transport); }},
    {{"rails", "",
      "Network devices to stripe large messages over, comma-separated, one for each rail, in the same order on every "
      "node; the first leads to aggregators, too; empty: whatever UCX picks."},
     [](Config& c, std::string_view v) { return read_rails(v, c.rails); }},
    {{"topology", "", "File in Slurm's topology.conf syntax that says which nodes are below which switch."},
     [](Config& c, std::string_view v) { return read_text(v, c.topology); }},
    {{"aggregators", "", "Aggregators to use: switch=host:port, comma-separated; empty: no offload."},
     [](Config& c, std::string_view v) { return read_text(v, c.aggregators); }},
    {{"aggregator_key_file", "", "File with the key that the aggregators ask for, accessible by its owner only."},
     [](Config& c, std::string_view v) { return read_text(v, c.aggregator_key_file); }},
    {{"fragment_bytes", "0", "Bytes of one fragment (64K, 1M), at most 1G; 0: what the plan prefers."},
     [](Config& c, std::string_view v) -> Status {
       FOLDCAST_ASSIGN(auto bytes, parse_size(v));
       if (bytes > (1ull << 30)) return invalid_argument("expected a size of at most 1G");
       c.fragment_bytes = bytes;
       return {};
     }},
    {{"depth", "0", "Fragments of one call in flight, at most 1024; 0: what the plan prefers."},
     [](Config& c, std::string_view v) { return read_integer<std::uint32_t>(v, 0, 1024, c.depth); }},
    {{"link_latency_us", "0", "One-way latency between two nodes in microseconds; 0: measured."},
     [](Config& c, std::string_view v) { return read_non_negative(v, c.link_latency_us); }},
    {{"link_gbps", "0", "Bandwidth of a node's link in gigabit per second; 0: measured."},
     [](Config& c, std::string_view v) { return read_non_negative(v, c.link_gbps); }},
    {{"spin_us", "-1", "Microseconds to poll before sleeping, at most 1000000; -1: decided from cores and ranks."},
     [](Config& c, std::string_view v) { return read_integer<std::int64_t>(v, -1, 1'000'000, c.spin_us); }},
    {{"cross_memory", "auto",
      "Whether ranks of a node read each other's large buffers where they are, if the system lets them: on, off or "
      "auto (when they have a core each)."},
     [](Config& c, std::string_view v) { return read_one_of(v, kCrossMemory, &c.cross_memory); }},
    {{"progress_thread", "0", "1: a thread makes calls progress while the application computes."},
     [](Config& c, std::string_view v) -> Status {
       int value = 0;
       FOLDCAST_RETURN_IF_ERROR(read_integer<int>(v, 0, 1, value));
       c.progress_thread = value != 0;
       return {};
     }},
    {{"wire_format", "exact",
      "How float32 of reductions travels between nodes: exact, bfloat16, float16 or float8 (see docs/numbers.md)."},
     [](Config& c, std::string_view v) { return read_one_of(v, kWireFormats, &c.wire_format); }},
    {{"calibration", "",
      "Directory that keeps measured links from job to job; empty: foldcast in $XDG_CACHE_HOME or ~/.cache; off: "
      "measure at every start."},
     [](Config& c, std::string_view v) { return read_text(v, c.calibration); }},
    {{"host_id", "",
      "Ranks with the same text share a node, others do not; empty: found from kernel, network namespace and "
      "/dev/shm."},
     [](Config& c, std::string_view v) { return read_text(v, c.host_id); }},
    {{"hostname", "", "Name of this node in errors and in the topology file; empty: what gethostname says."},
     [](Config& c, std::string_view v) { return read_text(v, c.hostname); }},
    {{"log_level", "warn", "What is logged to stderr: trace, debug, info, warn, error or off."},
     [](Config&, std::string_view v) { return read_one_of(v, kLogLevels); }},
};

constexpr auto kEntries = [] {
  std::array<ConfigEntry, std::size(kSettings)> entries{};
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = kSettings[i].entry;
  return entries;
}();

constexpr ConfigEntry kLaunchEntries[] = {
    {"config", "", "Configuration file; default: ./foldcast.toml, else /etc/foldcast.toml, if they exist."},
    {"rank", "", "This process's rank, from 0; needs FOLDCAST_SIZE. Set by `foldcast run` and `foldcast lab run`."},
    {"size", "", "Number of ranks in the job."},
    {"local_rank", "", "This process's number on its node; default: the launcher's, else 0."},
    {"store", "", "host:port where rank 0 serves the job's control plane."},
    {"store_port", "", "The port alone, where the launcher tells the host; 1 to 65535."},
    {"terminal", "", "1: the launcher forwards this process's output to a terminal, so progress lines may be shown."},
};

const Setting* find_setting(std::string_view key) {
  auto found = std::find_if(std::begin(kSettings), std::end(kSettings), [&](auto& s) { return s.entry.key == key; });
  return found == std::end(kSettings) ? nullptr : found;
}

bool is_launch_key(std::string_view key) {
  return std::any_of(std::begin(kLaunchEntries), std::end(kLaunchEntries), [&](auto& e) { return e.key == key; });
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// "did you mean X?" or where to look, for a name that no table has.
std::string suggestion(std::string_view unknown, bool as_variable) {
  std::vector<std::string_view> names;
  for (const auto& entry : kEntries) names.push_back(entry.key);
  if (as_variable) {
    for (const auto& entry : kLaunchEntries) names.push_back(entry.key);
  }
  auto near = nearest_name(lower(unknown), names);
  if (!near) return "`foldcast config` lists the known ones";
  return fmt::format("did you mean {}?", as_variable ? variable_of(*near) : std::string(*near));
}

// --- Sources ---------------------------------------------------------------------------------------------------------

/// A value with the name its source knows it by, for errors.
struct Given {
  std::string text;
  std::string name;
  ConfigSource source = ConfigSource::kDefault;
};
using GivenValues = std::map<std::string, Given, std::less<>>;

void read_environment(const std::map<std::string, std::string>& environment, GivenValues& given,
                      std::vector<std::string>& warnings) {
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix) || name.starts_with(kTestPrefix)) continue;
    std::string key = lower(std::string_view(name).substr(kPrefix.size()));
    if (name != variable_of(key) || (find_setting(key) == nullptr && !is_launch_key(key))) {
      warnings.push_back(fmt::format("unknown variable {}: {}", name, suggestion(key, true)));
    } else if (!is_launch_key(key) && !value.empty()) {  // set but empty counts as not set, as launchers pass it so
      given[key] = {value, name, ConfigSource::kEnvironment};
    }
  }
}

std::optional<std::string> scalar_text(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return *text;
  if (auto number = node.value_exact<std::int64_t>()) return fmt::format("{}", *number);
  if (auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  return std::nullopt;
}

Status read_toml(std::string_view text, std::string_view file, GivenValues& given, std::vector<std::string>& warnings) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return invalid_argument(fmt::format("{}: line {}: {}", file, error.source().begin.line, error.description()));
  }
  for (const auto& [toml_key, node] : table) {
    std::string key(toml_key.str());
    auto line = node.source().begin.line;
    if (is_launch_key(key)) {
      warnings.push_back(fmt::format("{}: line {}: \"{}\" is only read from the environment, as {}", file, line, key,
                                     variable_of(key)));
    } else if (find_setting(key) == nullptr) {
      warnings.push_back(fmt::format("{}: line {}: unknown key \"{}\": {}", file, line, key, suggestion(key, false)));
    } else if (auto value = scalar_text(node)) {
      given[key] = {*value, fmt::format("{}: line {}: {}", file, line, key), ConfigSource::kFile};
    } else {
      return invalid_argument(fmt::format("{}: line {}: {}: expected a string or a number", file, line, key));
    }
  }
  return {};
}

struct FileText {
  std::string text;
  mode_t mode = 0;
};

/// Regular files only (a FIFO would wait for its writer without a deadline).
Result<FileText> read_file(const std::string& path, std::size_t limit) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_error("open " + path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error("stat " + path, errno);
  if (!S_ISREG(info.st_mode)) return invalid_argument(path + " is not a regular file");
  FileText file{{}, info.st_mode};
  char block[4096];
  for (;;) {
    ssize_t got = ::read(fd.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read " + path, errno);
    if (got == 0) return file;
    file.text.append(block, static_cast<std::size_t>(got));
    if (file.text.size() > limit) return invalid_argument(fmt::format("{} is longer than {} bytes", path, limit));
  }
}

Status check_private(const std::string& path, mode_t mode) {
  if ((mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return invalid_argument(fmt::format("{} holds a key but is accessible by others (mode {:03o}); run: chmod 600 {}",
                                      path, mode & 0777u, path));
}

struct ConfigFile {
  std::string path;
  FileText file;
};

Result<std::optional<ConfigFile>> find_file(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> candidates = {"foldcast.toml", "/etc/foldcast.toml"};
  auto named = environment.find("FOLDCAST_CONFIG");
  bool must_exist = named != environment.end() && !named->second.empty();
  if (must_exist) candidates = {named->second};
  for (const auto& path : candidates) {
    if (!must_exist && ::access(path.c_str(), F_OK) != 0) continue;
    auto file = read_file(path, kMaxFileBytes);
    if (!file.ok()) return file.status().with_context(must_exist ? "FOLDCAST_CONFIG" : "configuration file");
    return std::optional<ConfigFile>({path, *std::move(file)});
  }
  return std::optional<ConfigFile>();
}

/// The key file counts only where no key of at least its rank is given; both from one source is a contradiction.
Status resolve_job_key(GivenValues& given, Config& config) {
  auto key = given.find("job_key");
  auto file = given.find("job_key_file");
  if (file == given.end()) return {};
  if (key != given.end() && key->second.source == file->second.source) {
    return invalid_argument(fmt::format("{} and {} are both set; unset one", key->second.name, file->second.name));
  }
  if (key != given.end() && key->second.source > file->second.source) return {};
  auto contents = read_key_file(file->second.text);
  if (!contents.ok()) return contents.status().with_context(file->second.name);
  config.job_key = *contents;
  return {};
}

}  // namespace

std::string variable_of(std::string_view key) {
  std::string result(kPrefix);
  for (char c : key) result += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  auto parts = split_unit(text);
  std::optional<double> scale;
  if (parts) {
    if (parts->unit.empty() || parts->unit == "ms") scale = 1;
    if (parts->unit == "s") scale = 1e3;
    if (parts->unit == "m" || parts->unit == "min") scale = 60e3;
    if (parts->unit == "h") scale = 3600e3;
  }
  if (!scale || parts->number * *scale > 1e15) {
    return invalid_argument("expected a time such as 250ms, 5s, 2min or plain milliseconds");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(parts->number * *scale)));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  // Whole numbers go past double, which cannot hold all 64 bits.
  if (auto whole = parse_number<std::uint64_t>(text)) return *whole;
  auto parts = split_unit(text);
  if (parts) {
    std::string unit = lower(parts->unit);
    if (unit.ends_with("ib"))
      unit.resize(unit.size() - 2);
    else if (unit.size() > 1 && unit.ends_with("b"))
      unit.resize(unit.size() - 1);
    constexpr std::string_view kUnits[] = {"b", "k", "m", "g", "t"};
    auto found = std::find(std::begin(kUnits), std::end(kUnits), unit);
    double bytes = std::ldexp(parts->number, 10 * static_cast<int>(found - std::begin(kUnits)));
    if (found != std::end(kUnits) && bytes == std::floor(bytes) && bytes < 0x1p63) {
      return static_cast<std::uint64_t>(bytes);
    }
  }
  return invalid_argument("expected a size such as 4096, 64K, 4M or 1G");
}

Result<std::string> read_key_file(const std::string& path) {
  FOLDCAST_ASSIGN(auto file, read_file(path, 4096));
  FOLDCAST_RETURN_IF_ERROR(check_private(path, file.mode));
  std::string& key = file.text;
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) return invalid_argument(path + " is empty; write a key into it, e.g. with: openssl rand -hex 32");
  return std::move(key);
}

std::span<const ConfigEntry> Config::entries() { return kEntries; }
std::span<const ConfigEntry> Config::launch_entries() { return kLaunchEntries; }

std::string_view Config::text(std::string_view key) const {
  auto found = values_.find(key);
  return found == values_.end() ? std::string_view() : std::string_view(found->second.first);
}

ConfigSource Config::source(std::string_view key) const {
  auto found = values_.find(key);
  return found == values_.end() ? ConfigSource::kDefault : found->second.second;
}

Result<Config> Config::build(const std::map<std::string, std::string>& environment, std::string_view toml,
                             std::string_view file) {
  Config config;
  GivenValues given;
  FOLDCAST_RETURN_IF_ERROR(read_toml(toml, file, given, config.warnings_));
  read_environment(environment, given, config.warnings_);
  for (const Setting& setting : kSettings) {
    std::string key(setting.entry.key);
    auto found = given.find(key);
    Given value{std::string(setting.entry.default_value), key, ConfigSource::kDefault};
    if (found != given.end()) value = found->second;
    Status status = setting.apply(config, value.text);
    if (!status.ok()) return status.with_context(fmt::format("{}=\"{}\"", value.name, value.text));
    bool secret = key == "job_key" && !value.text.empty();
    config.values_[key] = {secret ? "set" : value.text, value.source};
  }
  FOLDCAST_RETURN_IF_ERROR(resolve_job_key(given, config));
  return config;
}

Result<Config> Config::from(const std::map<std::string, std::string>& environment, std::string_view toml) {
  return build(environment, toml, "foldcast.toml");
}

Result<Config> Config::from_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view pair(*entry);
    auto equals = pair.find('=');
    if (equals != pair.npos) environment.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  FOLDCAST_ASSIGN(auto file, find_file(environment));
  if (!file) return build(environment, {}, {});
  FOLDCAST_ASSIGN(auto config, build(environment, file->file.text, file->path));
  if (config.source("job_key") == ConfigSource::kFile) {
    FOLDCAST_RETURN_IF_ERROR(check_private(file->path, file->file.mode));
  }
  log().set_level(spdlog::level::from_str(std::string(config.text("log_level"))));
  return config;
}

std::optional<std::string_view> nearest_name(std::string_view word, std::span<const std::string_view> names) {
  // Damerau-Levenshtein distance in its optimal string alignment form: insertions, deletions, substitutions and swaps
  // of neighbours cost one each.
  auto distance = [word](std::string_view name) {
    std::vector<std::size_t> before(name.size() + 1), above(name.size() + 1), row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j) above[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= name.size(); ++j) {
        bool same = word[i - 1] == name[j - 1];
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
        bool swapped = i > 1 && j > 1 && word[i - 1] == name[j - 2] && word[i - 2] == name[j - 1];
        if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      }
      before.swap(above);
      above.swap(row);
    }
    return above[name.size()];
  };
  std::optional<std::string_view> best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (std::string_view name : names) {
    std::size_t length = std::max(word.size(), name.size());
    std::size_t found = distance(name);
    if (found <= std::max<std::size_t>(1, length / 3) && found < word.size() && found < best_distance) {
      best = name;
      best_distance = found;
    }
  }
  return best;
}

}  // namespace foldcast
