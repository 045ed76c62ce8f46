#include "hierarchy/planner.h"

#include <algorithm>

#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/builder.h"
#include "hierarchy/composer.h"

namespace foldcast::hierarchy {
namespace {

using Form = Composition::Form;

bool is_uniform(const Layout& layout) {
  return std::all_of(layout.nodes.begin(), layout.nodes.end(),
                     [&](const auto& ranks) { return ranks.size() == layout.nodes.front().size(); });
}

std::size_t largest_node(const Layout& layout) {
  std::size_t largest = 0;
  for (const auto& ranks : layout.nodes) largest = std::max(largest, ranks.size());
  return largest;
}

/// The kinds whose node part works on a piece of the whole for each node.
bool needs_consecutive(Collective kind) { return has_blocks(kind); }

/// Whether some form with node groups can be built at all.
bool is_hierarchical(const Layout& layout, Collective kind) {
  if (largest_node(layout) == 1 || has_variable_counts(kind) || kind == Collective::kSendRecv) return false;
  return !needs_consecutive(kind) || is_consecutive(layout);
}

std::vector<std::uint32_t> shard_counts(const Layout& layout, Collective kind) {
  const auto most = static_cast<std::uint32_t>(layout.smallest_node());
  if (most == 1) return {};
  if (kind == Collective::kAllReduce || kind == Collective::kBarrier) return {most};
  const bool has_columns = kind == Collective::kReduce || kind == Collective::kBroadcast ||
                           kind == Collective::kReduceScatter || kind == Collective::kAllGather;
  if (has_columns && is_uniform(layout)) return {most};
  return {};
}

}  // namespace

bool is_consecutive(const Layout& layout) {
  std::int32_t next = 0;
  for (const auto& ranks : layout.nodes) {
    for (std::int32_t rank : ranks) {
      if (rank != next++) return false;
    }
  }
  return true;
}

std::string name_of(const Layout& layout, const Composition& composition) {
  if (layout.size() == 1) return "self";
  if (composition.form == Form::kNode) return "node";
  if (largest_node(layout) == 1) return composition.network;
  switch (composition.form) {
    case Form::kShards:
      return "node+" + composition.network;
    case Form::kLeaders:
      return "leader+" + composition.network;
    case Form::kFlat:
    case Form::kNode:
      break;
  }
  return "flat+" + composition.network;
}

std::vector<schedule::Group> groups_of(const Layout& layout) {
  std::vector<schedule::Group> groups;
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    groups.push_back({schedule::GroupKind::kNode, "node " + std::to_string(node), layout.nodes[node]});
  }
  for (std::size_t shard = 0; shard < layout.smallest_node(); ++shard) {
    schedule::Group tree{schedule::GroupKind::kTree, "tree " + std::to_string(shard), {}};
    for (const auto& ranks : layout.nodes) tree.members.push_back(ranks[shard]);
    groups.push_back(std::move(tree));
  }
  return groups;
}

Result<schedule::Schedule> compose(const Layout& layout, const Request& request, const Composition& composition,
                                   std::int32_t rank) {
  const bool has_nodes = composition.form == Form::kLeaders || composition.form == Form::kShards;
  if (composition.shards < 1 || composition.shards > layout.smallest_node()) {
    return invalid_argument("a plan with " + std::to_string(composition.shards) +
                            " shards needs as many ranks on every node; the smallest has " +
                            std::to_string(layout.smallest_node()));
  }
  if (has_nodes && largest_node(layout) > 1 && !is_hierarchical(layout, request.kind)) {
    return invalid_argument(std::string(to_string(request.kind)) + " runs flat over this layout");
  }
  Composer composer(layout, request, composition, rank);
  return composer.run();
}

Result<schedule::Program> compose_all(const Layout& layout, const Request& request, const Composition& composition) {
  schedule::Program program;
  program.name = name_of(layout, composition);
  program.groups = groups_of(layout);
  for (std::size_t rank = 0; rank < layout.size(); ++rank) {
    FOLDCAST_ASSIGN(auto one, compose(layout, request, composition, static_cast<std::int32_t>(rank)));
    program.ranks.push_back(std::move(one));
  }
  return program;
}

std::vector<Composition> compositions_of(const Layout& layout, Collective kind) {
  const bool variable = has_variable_counts(kind);
  const bool on_one_node = layout.nodes.size() == 1;
  if (kind == Collective::kSendRecv) return {{Form::kFlat, "direct", 1}};
  if (layout.size() == 1) {
    return {{Form::kFlat, std::string(schedule::algorithms_of(scheduled_as(kind)).front().name), 1}};
  }
  std::vector<Composition> all;
  const bool group_takes_counts = kind == Collective::kReduceScatterV || kind == Collective::kAllGatherV;
  if (on_one_node && (!variable || group_takes_counts)) all.push_back({Form::kNode, {}, 1});
  if (on_one_node && !variable) return all;
  const Collective base = scheduled_as(kind);
  const bool takes_tree = kind == Collective::kAllReduce || kind == Collective::kBarrier;
  const bool hierarchical = is_hierarchical(layout, kind);
  const auto add = [&](Form form, std::uint32_t shards) {
    for (const auto& algorithm : schedule::algorithms_of(base)) {
      // Messages of several blocks are in one piece only where the blocks are.
      const bool dense = !variable && (form != Form::kShards || !has_blocks(kind));
      if (algorithm.adjacent && !dense) continue;
      all.push_back({form, std::string(algorithm.name), shards});
    }
    // A tree has a member a node.
    const bool one_each = form != Form::kFlat || largest_node(layout) == 1;
    if (takes_tree && one_each) all.push_back({form, Composition::kTree, shards});
  };
  if (!hierarchical) {
    add(Form::kFlat, 1);
    return all;
  }
  if (kind == Collective::kAllToAll) return {{Form::kShards, "direct", 1}};  // every rank works for itself
  add(Form::kLeaders, 1);
  for (std::uint32_t shards : shard_counts(layout, kind)) add(Form::kShards, shards);
  // What must be reduced in rank order cannot be reduced node by node where nodes are no intervals of ranks.
  if (reduces(kind) && !is_consecutive(layout)) add(Form::kFlat, 1);
  return all;
}

Composition::Form leading_form(const Layout& layout) { return largest_node(layout) > 1 ? Form::kLeaders : Form::kFlat; }

bool is_divisible(Collective kind, const Composition& composition) {
  if (!has_blocks(kind)) return true;
  if (composition.form != Form::kFlat) return false;
  const bool counts_known =
      !has_variable_counts(kind) || kind == Collective::kReduceScatterV || kind == Collective::kAllGatherV;
  const auto algorithm = schedule::find_algorithm(scheduled_as(kind), composition.network);
  return counts_known && algorithm.ok() && !algorithm->adjacent;
}

}  // namespace foldcast::hierarchy
