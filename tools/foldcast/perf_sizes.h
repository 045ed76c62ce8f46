#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast::tools {

/// One message size to measure. `occurrences`: how often a step of the workload has it (1 without --sizes-from).
struct PerfSize {
  std::uint64_t bytes = 0;
  std::uint64_t occurrences = 1;
  friend bool operator==(const PerfSize&, const PerfSize&) = default;
};

struct SizeList {
  std::vector<PerfSize> sizes;
  std::string rule;  ///< for the header: "8 to 64M, x4"
};

/// What -b, -e, -i and -f were given; the last two may be empty.
struct SweepText {
  std::string_view first;
  std::string_view last;
  std::string_view step;
  std::string_view factor;
};

// Errors are kInvalidArgument or kUnavailable with one line that names the flag or file, the value and what is
// expected.

Result<SizeList> parse_sweep(const SweepText& text);
/// The file of --sizes-from.
Result<SizeList> read_workload(const std::string& path);
/// One size a line, text from '#' on ignored; equal sizes become one with their number, in order of first appearance.
Result<std::vector<PerfSize>> parse_workload(std::string_view name, std::string_view text);

/// As foldcast::parse_size, at most 1 PiB. `flag` names it in errors.
Result<std::uint64_t> parse_size(std::string_view flag, std::string_view text);
/// A whole number from `least` to 10^9.
Result<std::uint64_t> parse_count(std::string_view flag, std::string_view text, std::uint64_t least);

}  // namespace foldcast::tools
