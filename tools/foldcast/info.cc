#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/foldcast/commands.h"
#include "tools/foldcast/info_facts.h"
#include "transports/ucx/ucx.h"

namespace foldcast::tools {
namespace {

/// UCX's own lines, numbered: the first is the library, the others are devices.
std::vector<std::string> transport_lines() {
  std::vector<std::string> lines;
  std::string text = transports::describe_ucx();
  for (std::size_t from = 0; from < text.size();) {
    std::size_t end = std::min(text.find('\n', from), text.size());
    if (end > from) lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

std::vector<std::pair<std::string, Facts>> sections() {
  return {{"foldcast", build_facts()},
          {"machine", machine_facts()},
          {"accelerators", accelerator_facts()},
          {"launch", launch_facts()}};
}

std::string as_text() {
  std::string text;
  for (const auto& [title, facts] : sections()) {
    text += title + "\n";
    for (const auto& [name, value] : facts) text += fmt::format("  {:<14} {}\n", name, value);
  }
  text += "transports\n";
  for (const std::string& line : transport_lines()) text += "  " + line + "\n";
  return text;
}

std::string as_json() {
  nlohmann::ordered_json json;
  for (const auto& [title, facts] : sections()) {
    for (const auto& [name, value] : facts) json[title][name] = value;
  }
  json["transports"] = transport_lines();
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "info", "Version, build, transports and devices found, and what is unavailable with the reason");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] {
    fmt::print("{}", *json ? as_json() : as_text());
    finish(0);
  });
}

}  // namespace foldcast::tools
