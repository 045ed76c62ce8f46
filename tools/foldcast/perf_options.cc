#include "tools/foldcast/perf_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "tools/foldcast/perf_shape.h"

namespace foldcast::tools {
namespace {

Result<double> parse_time(std::string_view flag, std::string_view text, std::string_view wanted) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e6) {
    return invalid_argument(fmt::format("{} {}: give {}", flag, text, wanted));
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

Result<Collective> parse_collective(const std::string& text) {
  if (auto kind = collective_from_string(text)) return *kind;
  std::string known;
  for (std::size_t i = 1; i < kCollectiveCount; ++i) {
    known += fmt::format("{}{}",
                         i == 1                      ? ""
                         : i + 1 == kCollectiveCount ? " or "
                                                     : ", ",
                         to_string(static_cast<Collective>(i)));
  }
  return invalid_argument(fmt::format("{}: unknown collective; give {}", text, known));
}

Result<WireFormat> parse_wire(const std::string& text) {
  for (std::size_t i = 0; i < kWireFormatCount; ++i) {
    if (text == to_string(static_cast<WireFormat>(i))) return static_cast<WireFormat>(i);
  }
  return invalid_argument(fmt::format("--wire {}: unknown; give exact, bfloat16, float16 or float8", text));
}

Result<int> parse_root(const std::string& text) {
  int root = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), root);
  if (error == std::errc() && end == text.data() + text.size() && root >= kAllRoots) return root;
  return invalid_argument(fmt::format("-r {}: give a rank, or -1 for all in turn", text));
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

/// Lists may name pairs that mean nothing; "all" takes what there is.
Status check_pairs(const PerfOptions& options, const PerfFlags& flags) {
  if (!reduces(options.collective) || flags.datatypes == "all" || flags.ops == "all") return ok_status();
  for (Datatype dtype : options.datatypes) {
    for (ReduceOp op : options.ops) {
      if (is_defined(dtype, op)) continue;
      return invalid_argument(
          fmt::format("-o {} is not defined for -d {}: leave one of them out, or give all for either", to_string(op),
                      to_string(dtype)));
    }
  }
  return ok_status();
}

Status check_forms(const PerfOptions& options, const PerfFlags& flags) {
  if (options.in_place && !has_in_place(options.collective)) {
    return invalid_argument(fmt::format("--in-place: {} has no in-place form; leave it out", flags.collective));
  }
  if (options.test_every_us > 0 && !options.overlap) {
    return invalid_argument("--test-every says how often --overlap asks for progress: give that, too");
  }
  return ok_status();
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

std::vector<ReduceOp> PerfOptions::ops_of(Datatype dtype) const {
  if (!reduces(collective)) return {ReduceOp::kSum};
  std::vector<ReduceOp> defined;
  std::copy_if(ops.begin(), ops.end(), std::back_inserter(defined), [&](ReduceOp op) { return is_defined(dtype, op); });
  return defined;
}

std::string_view to_string(PerfPath path) {
  constexpr std::array<std::string_view, 3> names = {"auto", "offload", "host"};
  return names[static_cast<std::size_t>(path)];
}

bool plan_applies(std::string_view plan, PerfPath path) {
  if (path == PerfPath::kAuto) return true;
  bool tree = plan == "tree" || (plan.size() > 5 && plan.substr(plan.size() - 5) == "+tree");
  return tree == (path == PerfPath::kOffload);
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
  PerfOptions options;
  FOLDCAST_ASSIGN(options.collective, parse_collective(flags.collective));
  FOLDCAST_ASSIGN(SizeList list, flags.sizes_from.empty()
                                     ? parse_sweep({flags.min_bytes, flags.max_bytes, flags.step_bytes, flags.factor})
                                     : read_workload(flags.sizes_from));
  options.sizes = std::move(list.sizes);
  options.size_rule = std::move(list.rule);
  FOLDCAST_ASSIGN(options.iterations, parse_count("-n", flags.iterations, 1));
  FOLDCAST_ASSIGN(options.warmup, parse_count("-w", flags.warmup, 0));
  FOLDCAST_ASSIGN(options.seconds, parse_time("--seconds", flags.seconds, "seconds per size and path, 0 for no bound"));
  FOLDCAST_ASSIGN(options.test_every_us, parse_time("--test-every", flags.test_every, "microseconds, 0 for never"));
  FOLDCAST_ASSIGN(options.root, parse_root(flags.root));
  FOLDCAST_ASSIGN(options.wire, parse_wire(flags.wire));
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
  options.overlap = flags.overlap;
  options.sizes_from = flags.sizes_from;
  options.json = flags.json;
  options.plot = flags.plot;
  FOLDCAST_RETURN_IF_ERROR(check_pairs(options, flags));
  FOLDCAST_RETURN_IF_ERROR(check_forms(options, flags));
  FOLDCAST_RETURN_IF_ERROR(check_plan(options, flags));
  return options;
}

}  // namespace foldcast::tools
