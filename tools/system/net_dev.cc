#include "tools/system/net_dev.h"

#include <fmt/format.h>

#include <sstream>

namespace foldcast::tools {

Result<std::vector<InterfaceBytes>> parse_net_dev(std::string_view text) {
  std::vector<InterfaceBytes> interfaces;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    auto colon = line.rfind(':');              // the name of an alias holds one too
    if (colon == std::string::npos) continue;  // the two lines of headings
    auto first = line.find_first_not_of(' ');
    InterfaceBytes one;
    one.name = line.substr(first, colon - first);
    // Eight received counters, of which bytes is the first, then the sent ones.
    std::istringstream numbers(line.substr(colon + 1));
    std::int64_t values[9];
    for (std::int64_t& value : values) {
      if (!(numbers >> value)) return unavailable(fmt::format("the counters of interface {} cannot be read", one.name));
    }
    one.rx = values[0];
    one.tx = values[8];
    interfaces.push_back(std::move(one));
  }
  return interfaces;
}

}  // namespace foldcast::tools
