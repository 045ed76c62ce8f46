#include "hierarchy/planner.h"

#include <algorithm>

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/builder.h"

namespace foldcast::hierarchy {
namespace {

using schedule::Chunk;
using schedule::Space;

constexpr Chunk kWholeInput{Space::kInput, 0, 1, 1};
constexpr Chunk kWholeOutput{Space::kOutput, 0, 1, 1};

std::size_t largest_node(const Layout& layout) {
  std::size_t largest = 0;
  for (const auto& ranks : layout.nodes) largest = std::max(largest, ranks.size());
  return largest;
}

/// Appends what this rank does between the nodes for its shard.
Status append_network(schedule::Builder& builder, const Layout& layout, const Composition& composition,
                      const schedule::Stage& stage) {
  if (!composition.offloaded()) {
    FOLDCAST_ASSIGN(auto algorithm, schedule::find_all_reduce(composition.network));
    algorithm.build(builder, stage);
    return ok_status();
  }
  const auto shard = static_cast<std::uint32_t>(layout.local_rank_of[builder.rank()]);
  builder.group({.verb = Verb::kAllReduce,
                 .group = static_cast<std::uint32_t>(layout.nodes.size()) + shard,
                 .source = stage.source,
                 .target = stage.target});
  return ok_status();
}

}  // namespace

std::string name_of(const Layout& layout, const Composition& composition) {
  if (layout.nodes.size() == 1) return layout.size() == 1 ? "self" : "node";
  const std::size_t largest = largest_node(layout);
  if (largest == 1) return composition.network;
  return (composition.shards > 1 ? "node+" : "leader+") + composition.network;
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

Result<schedule::Schedule> compose(const Layout& layout, const Composition& composition, std::int32_t rank) {
  schedule::Builder builder(rank);
  if (layout.size() == 1) {
    builder.copy(kWholeOutput, kWholeInput);
    return builder.finish();
  }
  const auto node = static_cast<std::uint32_t>(layout.node_of[rank]);
  if (layout.nodes.size() == 1) {
    builder.group({.verb = Verb::kAllReduce, .group = node, .source = kWholeInput, .target = kWholeOutput});
    return builder.finish();
  }
  const std::uint32_t shards = composition.shards;
  if (shards < 1 || shards > layout.smallest_node()) {
    return invalid_argument("a plan with " + std::to_string(shards) +
                            " shards needs as many ranks on every node; the " + "smallest has " +
                            std::to_string(layout.smallest_node()));
  }
  const bool shares_node = layout.nodes[node].size() > 1;
  const auto local = static_cast<std::uint32_t>(layout.local_rank_of[rank]);
  const auto owners = static_cast<std::uint16_t>(shards);
  if (shares_node) {
    builder.group({.verb = Verb::kReduceScatter,
                   .group = node,
                   .lane = 0,
                   .owners = owners,
                   .source = kWholeInput,
                   .target = kWholeOutput});
  }
  if (local < shards) {
    std::vector<std::int32_t> members;
    for (const auto& ranks : layout.nodes) members.push_back(ranks[local]);
    schedule::Stage stage;
    stage.members = members;
    stage.self = static_cast<std::int32_t>(node);
    stage.target = {Space::kOutput, local, shards, 1};
    stage.source = {shares_node ? Space::kOutput : Space::kInput, local, shards, 1};
    FOLDCAST_RETURN_IF_ERROR(append_network(builder, layout, composition, stage));
  }
  if (shares_node) {
    builder.group({.verb = Verb::kAllGather,
                   .group = node,
                   .lane = 1,
                   .owners = owners,
                   .source = kWholeOutput,
                   .target = kWholeOutput});
  }
  return builder.finish();
}

Result<schedule::Program> compose_all(const Layout& layout, const Composition& composition) {
  schedule::Program program;
  program.name = name_of(layout, composition);
  program.groups = groups_of(layout);
  for (std::size_t rank = 0; rank < layout.size(); ++rank) {
    FOLDCAST_ASSIGN(auto one, compose(layout, composition, static_cast<std::int32_t>(rank)));
    program.ranks.push_back(std::move(one));
  }
  return program;
}

std::vector<Composition> compositions_of(const Layout& layout) {
  if (layout.nodes.size() == 1) return {Composition{}};
  std::vector<Composition> all;
  std::vector<std::uint32_t> shard_counts{1};
  const auto most = static_cast<std::uint32_t>(layout.smallest_node());
  if (most > 1) shard_counts.push_back(most);
  for (std::uint32_t shards : shard_counts) {
    for (const auto& entry : schedule::all_reduce_algorithms()) all.push_back({std::string(entry.name), shards});
    all.push_back({Composition::kTree, shards});
  }
  return all;
}

}  // namespace foldcast::hierarchy
