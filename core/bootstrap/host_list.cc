#include "core/bootstrap/host_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace foldcast::bootstrap {
namespace {

/// A typo such as node[0-999999999] must not eat the machine.
constexpr std::size_t kMaxHosts = 1u << 20;

Status bad_list(std::string_view text, const std::string& why) {
  return invalid_argument("host list \"" + std::string(text) + "\": " + why);
}

/// Index of the comma that ends the item starting at `from` (commas inside brackets do not), or the end.
std::size_t item_end(std::string_view text, std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

bool parse_number(std::string_view digits, std::uint64_t& value) {
  if (digits.empty() || digits.size() > 18) return false;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size();
}

/// The numbers of "0-2,07" as they are to be printed.
Result<std::vector<std::string>> expand_ranges(std::string_view ranges, std::string_view whole) {
  std::vector<std::string> numbers;
  while (true) {
    const std::size_t comma = std::min(ranges.find(','), ranges.size());
    const std::string_view range = ranges.substr(0, comma);
    const std::size_t dash = std::min(range.find('-'), range.size());
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == range.size() ? first : range.substr(dash + 1);
    std::uint64_t low = 0, high = 0;
    if (!parse_number(first, low) || !parse_number(last, high)) {
      return bad_list(whole, "\"" + std::string(range) + "\" is not a number or a range like 0-7");
    }
    if (high < low) return bad_list(whole, "the range \"" + std::string(range) + "\" runs backwards");
    if (high - low >= kMaxHosts - numbers.size()) return bad_list(whole, "more than 1048576 hosts");
    for (std::uint64_t n = low; n <= high; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
    if (comma == ranges.size()) return numbers;
    ranges.remove_prefix(comma + 1);
  }
}

/// One item: literal text and bracketed ranges in any alternation, as in rack[0-1]node[0-3].
Result<std::vector<std::string>> expand_item(std::string_view item, std::string_view whole) {
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const std::size_t open = std::min(item.find('['), item.size());
    const std::string_view literal = item.substr(0, open);
    if (literal.find(']') != std::string_view::npos) return bad_list(whole, "a ] without its [");
    for (auto& name : names) name += literal;
    if (open == item.size()) break;
    const std::size_t close = item.find(']', open);
    if (close == std::string_view::npos) return bad_list(whole, "a [ without its ]");
    FOLDCAST_ASSIGN(const auto numbers, expand_ranges(item.substr(open + 1, close - open - 1), whole));
    if (names.size() * numbers.size() > kMaxHosts) return bad_list(whole, "more than 1048576 hosts");
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const auto& name : names) {
      for (const auto& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = item_end(text, from);
    if (end == from) return bad_list(text, "an empty name");
    FOLDCAST_ASSIGN(auto names, expand_item(text.substr(from, end - from), text));
    if (hosts.size() + names.size() > kMaxHosts) return bad_list(text, "more than 1048576 hosts");
    for (auto& name : names) hosts.push_back(std::move(name));
    from = end + 1;
  }
  return hosts;
}

}  // namespace foldcast::bootstrap
