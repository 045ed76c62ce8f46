// Reads the fabric's switches from a file in the syntax of Slurm's topology.conf.
#include "offload/tree.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>

namespace foldcast::offload {
namespace {

/// Far above any real file; keeps a wrong path (a core dump, a device) from being swallowed.
constexpr std::size_t kMaxFileBytes = 16u << 20;

Status bad_line(std::size_t line, const std::string& why) {
  return invalid_argument("topology line " + std::to_string(line) + ": " + why);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

struct Definition {
  std::size_t line = 0;
  std::string name;
  std::vector<std::string> switches, nodes;
};

/// The text's next line, with lines that end in a backslash joined; `line` counts the physical ones.
std::string next_line(std::string_view& text, std::size_t& line) {
  std::string joined;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (!part.empty() && part.back() == '\r') part.remove_suffix(1);
    part = part.substr(0, part.find('#'));
    const bool more = !part.empty() && part.back() == '\\';
    joined += more ? part.substr(0, part.size() - 1) : part;
    if (!more) break;
  }
  return joined;
}

Status read_setting(std::string_view word, Definition& definition) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals + 1 == word.size()) {
    return bad_line(definition.line, "expected NAME=VALUE, not \"" + std::string(word) + "\"");
  }
  const std::string key = lower(word.substr(0, equals));
  const std::string_view value = word.substr(equals + 1);
  if (key == "switchname") {
    if (!definition.name.empty()) return bad_line(definition.line, "a second SwitchName");
    definition.name = value;
    return ok_status();
  }
  if (key == "linkspeed") return ok_status();
  if (key != "nodes" && key != "switches") {
    return bad_line(definition.line, "unknown setting \"" + std::string(word.substr(0, equals)) +
                                         "\"; known are SwitchName, Switches, Nodes and LinkSpeed");
  }
  auto names = expand_host_list(value);
  if (!names.ok()) return names.status().with_context("topology line " + std::to_string(definition.line));
  auto& target = key == "nodes" ? definition.nodes : definition.switches;
  target.insert(target.end(), names->begin(), names->end());
  return ok_status();
}

Result<Definition> read_definition(std::string_view text, std::size_t line) {
  Definition definition;
  definition.line = line;
  constexpr std::string_view kBlank = " \t";
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
    if (text.empty()) break;
    const std::size_t end = std::min(text.find_first_of(kBlank), text.size());
    FOLDCAST_RETURN_IF_ERROR(read_setting(text.substr(0, end), definition));
    text.remove_prefix(end);
  }
  if (definition.name.empty()) return bad_line(line, "no SwitchName");
  return definition;
}

Status link(SwitchTopology& topology, const std::vector<Definition>& definitions,
            const std::map<std::string, std::int32_t>& index) {
  for (std::size_t i = 0; i < definitions.size(); ++i) {
    for (const auto& name : definitions[i].switches) {
      const auto child = index.find(name);
      if (child == index.end()) return bad_line(definitions[i].line, "switch " + name + " is defined nowhere");
      auto& below = topology.switches[child->second];
      if (below.parent >= 0) {
        return bad_line(definitions[i].line,
                        "switch " + name + " is already below " + topology.switches[below.parent].name);
      }
      below.parent = static_cast<std::int32_t>(i);
    }
  }
  // Every switch has one parent at most, so a loop is found by walking up further than there are switches.
  for (std::size_t i = 0; i < definitions.size(); ++i) {
    std::size_t steps = 0;
    for (std::int32_t at = topology.switches[i].parent; at >= 0; at = topology.switches[at].parent) {
      if (++steps > definitions.size()) {
        return bad_line(definitions[i].line, "switch " + definitions[i].name + " is above itself");
      }
    }
  }
  return ok_status();
}

}  // namespace

Result<SwitchTopology> SwitchTopology::parse(std::string_view text) {
  std::vector<Definition> definitions;
  std::map<std::string, std::int32_t> index;
  std::set<std::string> nodes;
  SwitchTopology topology;
  for (std::size_t line = 0; !text.empty();) {
    const std::size_t first = line + 1;
    const std::string joined = next_line(text, line);
    if (joined.find_first_not_of(" \t") == std::string::npos) continue;
    FOLDCAST_ASSIGN(auto definition, read_definition(joined, first));
    if (!index.emplace(definition.name, static_cast<std::int32_t>(definitions.size())).second) {
      return bad_line(first, "switch " + definition.name + " is defined twice");
    }
    for (const auto& node : definition.nodes) {
      if (!nodes.insert(node).second) return bad_line(first, "node " + node + " is below two switches");
    }
    topology.switches.push_back({definition.name, -1, definition.nodes});
    definitions.push_back(std::move(definition));
  }
  FOLDCAST_RETURN_IF_ERROR(link(topology, definitions, index));
  return topology;
}

Result<SwitchTopology> SwitchTopology::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalid_argument("cannot read the topology file " + path + ": check FOLDCAST_TOPOLOGY");
  std::string text;
  char block[4096];
  while (file.read(block, sizeof block), file.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes) return invalid_argument("topology file " + path + " is larger than 16 MiB");
  }
  auto topology = parse(text);
  if (!topology.ok()) return topology.status().with_context(path);
  return topology;
}

}  // namespace foldcast::offload
