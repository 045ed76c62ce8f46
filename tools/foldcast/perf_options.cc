#include "tools/foldcast/perf_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <sstream>

#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

/// A sweep longer than this is a mistyped step, not a wish.
constexpr std::size_t kMaxSizes = 10000;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;

Result<std::uint64_t> parse_count(std::string_view flag, std::string_view text, std::uint64_t least) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > 1'000'000'000) {
    return invalid_argument(fmt::format("{} {}: give a whole number from {} to 1000000000", flag, text, least));
  }
  return value;
}

Result<double> parse_seconds(std::string_view flag, std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e6) {
    return invalid_argument(fmt::format("{} {}: give seconds per size and path, 0 for no bound", flag, text));
  }
  return value;
}

Result<bool> parse_switch(std::string_view flag, std::string_view text) {
  if (text == "0") return false;
  if (text == "1") return true;
  return invalid_argument(fmt::format("{} {}: give 0 or 1", flag, text));
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  std::stringstream stream{std::string(list)};
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// The values a comma-separated list names, without repetitions; `read` answers nothing for an unknown name.
template <typename Value, typename Read>
Result<std::vector<Value>> parse_list(std::string_view flag, std::string_view text, Read read, std::string_view known) {
  std::vector<Value> values;
  for (const std::string& name : split(text)) {
    std::optional<Value> value = read(name);
    if (!value) return invalid_argument(fmt::format("{} {}: unknown; give {}", flag, name, known));
    if (std::find(values.begin(), values.end(), *value) == values.end()) values.push_back(*value);
  }
  if (values.empty()) return invalid_argument(fmt::format("{}: empty; give {}", flag, known));
  return values;
}

template <typename Value>
std::vector<Value> all_values(std::size_t count) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<Value>(i));
  return values;
}

template <typename Value>
std::string names_of(std::size_t count) {
  std::string names;
  for (Value value : all_values<Value>(count)) names += fmt::format("{}, ", to_string(value));
  return names + "or all";
}

Result<std::vector<Datatype>> parse_datatypes(const std::string& text) {
  if (text == "all") return all_values<Datatype>(kDatatypeCount);
  return parse_list<Datatype>("-d", text, datatype_from_string, names_of<Datatype>(kDatatypeCount));
}

Result<std::vector<ReduceOp>> parse_ops(const std::string& text) {
  if (text == "all") return all_values<ReduceOp>(kReduceOpCount);
  return parse_list<ReduceOp>("-o", text, reduce_op_from_string, names_of<ReduceOp>(kReduceOpCount));
}

std::optional<PerfPath> path_from_string(std::string_view name) {
  for (PerfPath path : {PerfPath::kAuto, PerfPath::kOffload, PerfPath::kHost}) {
    if (name == to_string(path)) return path;
  }
  return std::nullopt;
}

struct Sweep {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t step = 0;    ///< bytes; 0: by factor
  std::uint64_t factor = 0;  ///< 0: by step
};

Result<Sweep> parse_sweep(const PerfFlags& flags) {
  Sweep sweep;
  FOLDCAST_ASSIGN(sweep.first, parse_size("-b", flags.min_bytes));
  FOLDCAST_ASSIGN(sweep.last, parse_size("-e", flags.max_bytes));
  if (sweep.first > sweep.last) {
    return invalid_argument(fmt::format("-b {} is more than -e {}: swap them", flags.min_bytes, flags.max_bytes));
  }
  if (!flags.step_bytes.empty() && !flags.factor.empty()) {
    return invalid_argument("-i and -f both say how sizes grow: give one of them");
  }
  if (!flags.step_bytes.empty()) {
    FOLDCAST_ASSIGN(sweep.step, parse_size("-i", flags.step_bytes));
    if (sweep.step == 0) return invalid_argument("-i 0 never gets from -b to -e: give at least 1 byte");
    return sweep;
  }
  FOLDCAST_ASSIGN(sweep.factor, parse_count("-f", flags.factor.empty() ? "4" : flags.factor, 0));
  if (sweep.factor < 2) {
    return invalid_argument(fmt::format("-f {} never gets from -b to -e: give at least 2", sweep.factor));
  }
  return sweep;
}

Result<std::vector<PerfSize>> sizes_of(const Sweep& sweep) {
  std::vector<PerfSize> sizes;
  std::uint64_t bytes = sweep.first;
  while (bytes <= sweep.last) {
    if (sizes.size() == kMaxSizes) {
      return invalid_argument(
          fmt::format("-i {}: more than {} sizes up to -e; give a larger step", sweep.step, kMaxSizes));
    }
    sizes.push_back({bytes, 1});
    if (sweep.step != 0) {
      bytes += sweep.step;
    } else {
      bytes = bytes == 0 ? 8 : bytes * sweep.factor;
    }
  }
  return sizes;
}

Result<std::string> read_workload(const std::string& path) {
  std::optional<std::string> text = read_file(path);
  if (text) return *std::move(text);
  return unavailable(fmt::format("--sizes-from {}: {}; give a readable file with one size in bytes a line", path,
                                 std::strerror(errno)));
}

/// `flags` says where the plan and the paths were asked for.
Status check_plan(const PerfOptions& options, const PerfFlags& flags) {
  if (options.plan.empty()) return ok_status();
  for (PerfPath path : options.paths) {
    if (plan_applies(options.plan, path)) return ok_status();
  }
  bool tree = plan_applies(options.plan, PerfPath::kOffload);
  return invalid_argument(fmt::format("{} {} is a plan of the {} path, which {} {} does not ask for: add it",
                                      flags.plan_source, options.plan, tree ? "offload" : "host", flags.paths_source,
                                      flags.paths));
}

}  // namespace

std::string_view to_string(PerfPath path) {
  constexpr std::array<std::string_view, 3> names = {"auto", "offload", "host"};
  return names[static_cast<std::size_t>(path)];
}

bool plan_applies(std::string_view plan, PerfPath path) {
  if (path == PerfPath::kAuto) return true;
  bool tree = plan == "tree" || (plan.size() > 5 && plan.substr(plan.size() - 5) == "+tree");
  return tree == (path == PerfPath::kOffload);
}

Result<std::uint64_t> parse_size(std::string_view flag, std::string_view text) {
  Result<std::uint64_t> bytes = foldcast::parse_size(text);
  if (!bytes.ok()) return bytes.status().with_context(fmt::format("{} {}", flag, text));
  if (*bytes > kMaxBytes) return invalid_argument(fmt::format("{} {}: more than 1 PiB; give less", flag, text));
  return bytes;
}

Result<std::vector<PerfSize>> parse_workload(std::string_view name, std::string_view text) {
  std::vector<PerfSize> sizes;
  std::stringstream lines{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    auto last = line.find_last_not_of(" \t\r");
    FOLDCAST_ASSIGN(std::uint64_t bytes,
                    parse_size(fmt::format("{}:{}:", name, number), line.substr(first, last - first + 1)));
    auto same = std::find_if(sizes.begin(), sizes.end(), [&](const PerfSize& size) { return size.bytes == bytes; });
    if (same != sizes.end()) {
      ++same->occurrences;
    } else {
      sizes.push_back({bytes, 1});
    }
  }
  if (sizes.empty()) return invalid_argument(fmt::format("{}: no sizes in it; give one in bytes a line", name));
  if (sizes.size() > kMaxSizes) {
    return invalid_argument(fmt::format("{}: {} different sizes; give at most {}", name, sizes.size(), kMaxSizes));
  }
  return sizes;
}

std::vector<PerfSize> whole_elements(const std::vector<PerfSize>& sizes, Datatype dtype) {
  std::vector<PerfSize> whole;
  for (const PerfSize& size : sizes) {
    std::uint64_t bytes = size.bytes - size.bytes % size_of(dtype);
    auto same = std::find_if(whole.begin(), whole.end(), [&](const PerfSize& other) { return other.bytes == bytes; });
    if (same != whole.end()) {
      same->occurrences += size.occurrences;
    } else {
      whole.push_back({bytes, size.occurrences});
    }
  }
  return whole;
}

PerfFlags with_settings(PerfFlags flags, const Config& config) {
  auto take = [&](std::string_view key, std::string& value, std::string& source) {
    if (!value.empty()) return;
    value = config.text(key);
    source = config.source(key) == ConfigSource::kFile ? fmt::format("{} in foldcast.toml", key) : variable_of(key);
  };
  take("path", flags.paths, flags.paths_source);
  take("plan", flags.plan, flags.plan_source);
  return flags;
}

Result<PerfOptions> validate(const PerfFlags& flags) {
  if (flags.collective != "all_reduce") {
    return invalid_argument(fmt::format("{}: unknown collective; give all_reduce", flags.collective));
  }
  PerfOptions options;
  if (flags.sizes_from.empty()) {
    FOLDCAST_ASSIGN(Sweep sweep, parse_sweep(flags));
    FOLDCAST_ASSIGN(options.sizes, sizes_of(sweep));
    options.size_rule = sweep.step != 0 ? fmt::format("{} to {} bytes, +{}", sweep.first, sweep.last, sweep.step)
                                        : fmt::format("{} to {} bytes, x{}", sweep.first, sweep.last, sweep.factor);
  } else {
    FOLDCAST_ASSIGN(std::string text, read_workload(flags.sizes_from));
    FOLDCAST_ASSIGN(options.sizes, parse_workload(flags.sizes_from, text));
    options.size_rule = fmt::format("{} of {}", options.sizes.size(), flags.sizes_from);
  }
  FOLDCAST_ASSIGN(options.iterations, parse_count("-n", flags.iterations, 1));
  FOLDCAST_ASSIGN(options.warmup, parse_count("-w", flags.warmup, 0));
  FOLDCAST_ASSIGN(options.seconds, parse_seconds("--seconds", flags.seconds));
  FOLDCAST_ASSIGN(const std::uint64_t across, parse_count("-a", flags.across, 0));
  if (across > 3) {
    return invalid_argument(fmt::format(
        "-a {}: give 0 (rank 0), 1 (average), 2 (least) or 3 (most) for whose time a call has", flags.across));
  }
  options.across = static_cast<PerfAcross>(across);
  FOLDCAST_ASSIGN(options.check, parse_switch("-c", flags.check));
  FOLDCAST_ASSIGN(options.blocking, parse_switch("-z", flags.blocking));
  FOLDCAST_ASSIGN(options.datatypes, parse_datatypes(flags.datatypes));
  FOLDCAST_ASSIGN(options.ops, parse_ops(flags.ops));
  FOLDCAST_ASSIGN(options.paths, parse_list<PerfPath>("--path", flags.paths.empty() ? "auto" : flags.paths,
                                                      path_from_string, "offload, host, auto or a list"));
  options.plan = flags.plan;
  options.in_place = flags.in_place;
  options.sizes_from = flags.sizes_from;
  options.json = flags.json;
  options.plot = flags.plot;
  FOLDCAST_RETURN_IF_ERROR(check_plan(options, flags));
  return options;
}

}  // namespace foldcast::tools
