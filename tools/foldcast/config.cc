#include "core/base/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/foldcast/commands.h"

namespace foldcast::tools {
namespace {

constexpr std::size_t kWidth = 110;

std::string_view source_name(ConfigSource source) {
  switch (source) {
    case ConfigSource::kFile:
      return "file";
    case ConfigSource::kEnvironment:
      return "environment";
    default:
      return "default";
  }
}

/// What the launcher or the user has set; empty: nothing.
std::string from_environment(const ConfigEntry& entry) {
  const char* value = std::getenv(variable_of(entry.key).c_str());
  return value != nullptr ? value : "";
}

/// `text` in lines of at most kWidth, each indented.
std::string wrapped(std::string_view text, std::string_view indent) {
  std::string out;
  std::string line(indent);
  while (!text.empty()) {
    std::size_t space = std::min(text.find(' '), text.size());
    if (line.size() > indent.size() && line.size() + 1 + space > kWidth) {
      out += line + "\n";
      line = indent;
    }
    if (line.size() > indent.size()) line += ' ';
    line += text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out + line + "\n";
}

std::string or_empty(std::string_view value) { return value.empty() ? "(empty)" : std::string(value); }

std::string as_text(const Config& config) {
  std::string text =
      "# environment variable = value  (source; default), then what it means. In foldcast.toml: the name"
      " without FOLDCAST_, in lower case.\n\n";
  for (const ConfigEntry& entry : Config::entries()) {
    ConfigSource source = config.source(entry.key);
    std::string origin(source_name(source));
    if (source != ConfigSource::kDefault) origin += fmt::format("; default: {}", or_empty(entry.default_value));
    text += fmt::format("{} = {}  ({})\n", variable_of(entry.key), or_empty(config.text(entry.key)), origin);
    text += wrapped(entry.documentation, "    ");
  }
  text += "\n# What only the environment can say.\n\n";
  for (const ConfigEntry& entry : Config::launch_entries()) {
    text += fmt::format("{} = {}\n", variable_of(entry.key), or_empty(from_environment(entry)));
    text += wrapped(entry.documentation, "    ");
  }
  return text;
}

std::string as_json(const Config& config) {
  nlohmann::ordered_json json;
  json["settings"] = nlohmann::ordered_json::array();
  for (const ConfigEntry& entry : Config::entries()) {
    json["settings"].push_back({{"key", entry.key},
                                {"variable", variable_of(entry.key)},
                                {"value", config.text(entry.key)},
                                {"default", entry.default_value},
                                {"source", source_name(config.source(entry.key))},
                                {"documentation", entry.documentation}});
  }
  json["launch"] = nlohmann::ordered_json::array();
  for (const ConfigEntry& entry : Config::launch_entries()) {
    json["launch"].push_back({{"variable", variable_of(entry.key)},
                              {"value", from_environment(entry)},
                              {"documentation", entry.documentation}});
  }
  json["warnings"] = config.warnings();
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void add_config(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("config", "All settings with their meaning, default, value and where the value came from");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] {
    Result<Config> config = Config::from_environment();
    if (!config.ok()) fail("foldcast config", config.status());
    fmt::print("{}", *json ? as_json(*config) : as_text(*config));
    std::fflush(stdout);
    for (const std::string& warning : config->warnings()) fmt::print(stderr, "foldcast config: {}\n", warning);
    finish(0);
  });
}

}  // namespace foldcast::tools
