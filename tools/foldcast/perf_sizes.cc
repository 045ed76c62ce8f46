#include "tools/foldcast/perf_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <sstream>

#include "core/base/config.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

/// A sweep longer than this is a mistyped step, not a wish.
constexpr std::size_t kMaxSizes = 10000;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;

struct Sweep {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t step = 0;    ///< bytes; 0: by factor
  std::uint64_t factor = 0;  ///< 0: by step
};

Result<Sweep> parse_steps(const SweepText& text) {
  Sweep sweep;
  FOLDCAST_ASSIGN(sweep.first, parse_size("-b", text.first));
  FOLDCAST_ASSIGN(sweep.last, parse_size("-e", text.last));
  if (sweep.first > sweep.last) {
    return invalid_argument(fmt::format("-b {} is more than -e {}: swap them", text.first, text.last));
  }
  if (!text.step.empty() && !text.factor.empty()) {
    return invalid_argument("-i and -f both say how sizes grow: give one of them");
  }
  if (!text.step.empty()) {
    FOLDCAST_ASSIGN(sweep.step, parse_size("-i", text.step));
    if (sweep.step == 0) return invalid_argument("-i 0 never gets from -b to -e: give at least 1 byte");
    return sweep;
  }
  FOLDCAST_ASSIGN(sweep.factor, parse_count("-f", text.factor.empty() ? "4" : text.factor, 0));
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

}  // namespace

Result<std::uint64_t> parse_count(std::string_view flag, std::string_view text, std::uint64_t least) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > 1'000'000'000) {
    return invalid_argument(fmt::format("{} {}: give a whole number from {} to 1000000000", flag, text, least));
  }
  return value;
}

Result<std::uint64_t> parse_size(std::string_view flag, std::string_view text) {
  Result<std::uint64_t> bytes = foldcast::parse_size(text);
  if (!bytes.ok()) return bytes.status().with_context(fmt::format("{} {}", flag, text));
  if (*bytes > kMaxBytes) return invalid_argument(fmt::format("{} {}: more than 1 PiB; give less", flag, text));
  return bytes;
}

Result<SizeList> parse_sweep(const SweepText& text) {
  FOLDCAST_ASSIGN(Sweep sweep, parse_steps(text));
  SizeList list;
  FOLDCAST_ASSIGN(list.sizes, sizes_of(sweep));
  list.rule = sweep.step != 0 ? fmt::format("{} to {} bytes, +{}", sweep.first, sweep.last, sweep.step)
                              : fmt::format("{} to {} bytes, x{}", sweep.first, sweep.last, sweep.factor);
  return list;
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

Result<SizeList> read_workload(const std::string& path) {
  std::optional<std::string> text = read_file(path);
  if (!text) {
    return unavailable(fmt::format("--sizes-from {}: {}; give a readable file with one size in bytes a line", path,
                                   std::strerror(errno)));
  }
  SizeList list;
  FOLDCAST_ASSIGN(list.sizes, parse_workload(path, *text));
  list.rule = fmt::format("{} of {}", list.sizes.size(), path);
  return list;
}

}  // namespace foldcast::tools
