#include "offload/tree.h"

#include <algorithm>
#include <limits>

namespace foldcast::offload {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int32_t kNoMember = std::numeric_limits<std::int32_t>::max();

void describe_vertex(const Tree& tree, std::int32_t vertex, std::string& text) {
  const auto& at = tree.vertices[vertex];
  text += at.name + "(";
  const char* gap = "";
  for (const std::int32_t member : at.members) {
    text += gap + (tree.hosts.empty() ? std::to_string(member) : tree.hosts[member]);
    gap = " ";
  }
  for (const std::int32_t child : at.children) {
    text += gap;
    describe_vertex(tree, child, text);
    gap = " ";
  }
  text += ")";
}

/// The tree while it is cut to size: vertices are switches, by their index in the topology.
struct Draft {
  struct Vertex {
    bool used = false;
    std::int32_t parent = kNone;
    std::vector<std::int32_t> children, members;
    std::int32_t first_member = kNoMember;
    std::size_t degree() const { return children.size() + members.size(); }
  };
  std::vector<Vertex> vertices;

  void attach(std::int32_t child, std::int32_t parent) {
    vertices[child].parent = parent;
    vertices[parent].children.push_back(child);
  }
  std::int32_t find_root() const {
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      if (vertices[i].used && vertices[i].parent == kNone) return static_cast<std::int32_t>(i);
    }
    return kNone;
  }
  /// Hands the only child of `vertex` to its parent; a root can only give way to another vertex.
  bool prune(std::int32_t vertex) {
    auto& at = vertices[vertex];
    if (!at.used || at.degree() != 1) return false;
    if (at.parent == kNone && at.children.empty()) return false;
    if (at.parent != kNone) std::erase(vertices[at.parent].children, vertex);
    for (const std::int32_t child : at.children) {
      vertices[child].parent = at.parent;
      if (at.parent != kNone) vertices[at.parent].children.push_back(child);
    }
    for (const std::int32_t member : at.members) vertices[at.parent].members.push_back(member);
    at = {};
    return true;
  }
};

using Aggregators = std::map<std::string, std::string>;

/// The closest switch with an aggregator, starting at `from` and going up.
std::int32_t aggregator_at_or_above(const SwitchTopology& topology, const Aggregators& aggregators, std::int32_t from) {
  for (; from >= 0; from = topology.switches[from].parent) {
    if (aggregators.contains(topology.switches[from].name)) return from;
  }
  return kNone;
}

std::int32_t topmost(const SwitchTopology& topology, std::int32_t at) {
  while (topology.switches[at].parent >= 0) at = topology.switches[at].parent;
  return at;
}

/// Each member under its closest aggregator, and each aggregator in use under the closest one above it.
Result<Draft> place_members(const SwitchTopology& topology, const Aggregators& aggregators,
                            std::span<const std::string> hosts) {
  std::map<std::string_view, std::int32_t> switch_of;
  for (std::size_t i = 0; i < topology.switches.size(); ++i) {
    for (const auto& node : topology.switches[i].nodes) switch_of.emplace(node, static_cast<std::int32_t>(i));
  }
  Draft draft;
  draft.vertices.resize(topology.switches.size());
  for (std::size_t m = 0; m < hosts.size(); ++m) {
    const auto member = static_cast<std::int32_t>(m);
    const auto found = switch_of.find(hosts[m]);
    if (found == switch_of.end()) return unavailable("host " + hosts[m] + " is not in the topology file");
    std::int32_t at = aggregator_at_or_above(topology, aggregators, found->second);
    if (at == kNone) {
      return unavailable("no aggregator serves switch " + topology.switches[found->second].name + " of host " +
                         hosts[m] + " or a switch above it");
    }
    draft.vertices[at].members.push_back(member);
    while (at != kNone && draft.vertices[at].first_member == kNoMember) {
      draft.vertices[at].used = true;
      draft.vertices[at].first_member = member;
      const std::int32_t above = aggregator_at_or_above(topology, aggregators, topology.switches[at].parent);
      if (above != kNone) draft.attach(at, above);
      at = above;
    }
  }
  return draft;
}

/// Makes one tree of the parts: the first part's root adopts the others.
Result<std::int32_t> join_parts(const SwitchTopology& topology, Draft& draft) {
  std::vector<std::int32_t> roots;
  for (std::size_t i = 0; i < draft.vertices.size(); ++i) {
    if (draft.vertices[i].used && draft.vertices[i].parent == kNone) roots.push_back(static_cast<std::int32_t>(i));
  }
  std::sort(roots.begin(), roots.end(),
            [&](auto a, auto b) { return draft.vertices[a].first_member < draft.vertices[b].first_member; });
  for (std::size_t i = 1; i < roots.size(); ++i) {
    if (topmost(topology, roots[i]) != topmost(topology, roots[0])) {
      return unavailable("no switch joins " + topology.switches[roots[0]].name + " and " +
                         topology.switches[roots[i]].name + " in the topology file");
    }
    draft.attach(roots[i], roots[0]);
  }
  return roots[0];
}

void emit(const SwitchTopology& topology, Draft& draft, std::int32_t from, std::int32_t parent, Tree& tree) {
  auto& at = draft.vertices[from];
  const auto self = static_cast<std::int32_t>(tree.vertices.size());
  std::sort(at.members.begin(), at.members.end());
  std::sort(at.children.begin(), at.children.end(),
            [&](auto a, auto b) { return draft.vertices[a].first_member < draft.vertices[b].first_member; });
  tree.vertices.push_back({topology.switches[from].name, {}, parent, {}, at.members});
  if (parent != kNone) tree.vertices[parent].children.push_back(self);
  for (const std::int32_t member : at.members) tree.parent_of_member[member] = self;
  for (const std::int32_t child : at.children) emit(topology, draft, child, self, tree);
}

}  // namespace

std::uint32_t Tree::depth() const {
  std::uint32_t deepest = 0;
  for (const std::int32_t parent : parent_of_member) {
    std::uint32_t levels = 0;
    for (std::int32_t at = parent; at >= 0; at = vertices[at].parent) ++levels;
    deepest = std::max(deepest, levels);
  }
  return deepest;
}

std::string Tree::member_name(std::int32_t member) const {
  const std::string name = "member " + std::to_string(member);
  return static_cast<std::size_t>(member) < hosts.size() ? name + " (" + hosts[member] + ")" : name;
}

std::string Tree::describe() const {
  std::string text;
  if (!vertices.empty()) describe_vertex(*this, 0, text);
  return text;
}

Status Tree::validate() const {
  if (vertices.empty() || parent_of_member.empty()) return invalid_argument("an aggregation tree without members");
  if (!hosts.empty() && hosts.size() != parent_of_member.size()) {
    return invalid_argument("an aggregation tree with " + std::to_string(parent_of_member.size()) + " members and " +
                            std::to_string(hosts.size()) + " hosts");
  }
  std::vector<std::vector<std::int32_t>> children(vertices.size()), members(vertices.size());
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    const std::int32_t parent = vertices[v].parent;
    if (v == 0 ? parent != kNone : parent < 0 || static_cast<std::size_t>(parent) >= v) {
      return invalid_argument("an aggregation tree whose vertex " + std::to_string(v) + " has parent " +
                              std::to_string(parent));
    }
    if (v > 0) children[parent].push_back(static_cast<std::int32_t>(v));
  }
  for (std::size_t m = 0; m < parent_of_member.size(); ++m) {
    const std::int32_t parent = parent_of_member[m];
    if (parent < 0 || static_cast<std::size_t>(parent) >= vertices.size()) {
      return invalid_argument("an aggregation tree whose member " + std::to_string(m) + " has parent " +
                              std::to_string(parent));
    }
    members[parent].push_back(static_cast<std::int32_t>(m));
  }
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    if (vertices[v].children != children[v] || vertices[v].members != members[v]) {
      return invalid_argument("an aggregation tree whose vertex " + std::to_string(v) +
                              " disagrees about its children");
    }
    if (children[v].empty() && members[v].empty()) {
      return invalid_argument("an aggregation tree whose vertex " + std::to_string(v) + " has no children");
    }
  }
  return ok_status();
}

Result<std::map<std::string, std::string>> parse_aggregators(std::string_view text) {
  std::map<std::string, std::string> aggregators;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    const std::string_view item = text.substr(from, end - from);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return invalid_argument("aggregators: expected switch=host:port, not \"" + std::string(item) + "\"");
    }
    FOLDCAST_RETURN_IF_ERROR(split_control(item.substr(equals + 1)).status());
    if (!aggregators.emplace(item.substr(0, equals), item.substr(equals + 1)).second) {
      return invalid_argument("aggregators: switch " + std::string(item.substr(0, equals)) + " is named twice");
    }
    from = end + 1;
  }
  return aggregators;
}

Result<ControlAddress> split_control(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::uint32_t port = 0;
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  for (const char c : digits) port = c < '0' || c > '9' || port > 65535 ? 65536 : port * 10 + (c - '0');
  if (digits.empty() || colon == 0 || port > 65535) {
    return invalid_argument("aggregator address \"" + std::string(text) + "\": expected host:port");
  }
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return ControlAddress{std::string(host), static_cast<std::uint16_t>(port)};
}

Result<Tree> build_tree(const SwitchTopology& topology, const std::map<std::string, std::string>& aggregators,
                        std::span<const std::string> hosts) {
  if (hosts.empty()) return invalid_argument("an aggregation tree needs at least one host");
  FOLDCAST_ASSIGN(auto draft, place_members(topology, aggregators, hosts));
  FOLDCAST_ASSIGN(auto root, join_parts(topology, draft));
  // From the top, so that what is left of a chain is the aggregator closest to the members.
  while (draft.prune(root)) root = draft.find_root();
  for (bool pruned = true; pruned;) {
    pruned = false;
    for (std::size_t i = 0; i < draft.vertices.size(); ++i) pruned |= draft.prune(static_cast<std::int32_t>(i));
  }
  root = draft.find_root();
  Tree tree;
  tree.parent_of_member.resize(hosts.size());
  tree.hosts.assign(hosts.begin(), hosts.end());
  emit(topology, draft, root, kNone, tree);
  for (auto& vertex : tree.vertices) vertex.control = aggregators.at(vertex.name);
  return tree;
}

}  // namespace foldcast::offload
