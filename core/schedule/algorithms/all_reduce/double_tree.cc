// Double binary tree.
//
// Two binary *trees* span the n members, and each takes one half of the vector of N bytes. A member adds its children's
// partial sums to its own values and sends the sum to its parent; the root has the result, which runs back down. In one
// tree alone, inner members would send three messages and leaves one. The two trees are complementary: a member that is
// inner in one is a leaf of the other, so all carry the same load when fragments follow each other as a pipeline.
//
// How the trees are built, see two_trees.h.
//
// Steps: about 2 log2 n, each a message of N/2. Bytes sent per member: at most 2 N (N up, N down), whatever n.
//
// Each half is added along one tree, so the result has the same bits everywhere. Partial sums stay in scratch; the
// output gets nothing but results.
//
// P. Sanders, J. Speck, J. L. Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
// Parallel Computing 35(12), 2009.

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/two_trees.h"

namespace foldcast::schedule {
namespace {

void reduce_up(Builder& builder, const Stage& stage, const TreeNeighbours& tree, std::uint32_t half,
               std::vector<std::uint32_t>& units) {
  const Chunk target = part(stage.target, half, 2);
  const std::size_t children = tree.lower.size() + tree.higher.size();
  // A member is inner in one tree and the trees use different halves of a unit: two units do for both.
  while (units.size() < children) units.push_back(builder.scratch_unit());
  auto child = [&](std::size_t i) {
    return i < tree.lower.size() ? tree.lower[i] : tree.higher[i - tree.lower.size()];
  };
  for (std::size_t i = 0; i < children; ++i) {
    builder.recv(stage.members[child(i)], in_scratch(target, units[i]), stage.channel);
  }
  Chunk sum = part(stage.source, half, 2);
  for (std::size_t i = 0; i < children; ++i) {
    const Chunk received = in_scratch(target, units[i]);
    const Chunk wider = !tree.parent && i + 1 == children ? target : received;
    if (i < tree.lower.size()) {
      builder.reduce(wider, received, sum);
    } else {
      builder.reduce(wider, sum, received);
    }
    sum = wider;
  }
  if (tree.parent) builder.send(stage.members[*tree.parent], sum, stage.channel);
}

void broadcast_down(Builder& builder, const Stage& stage, const TreeNeighbours& tree, std::uint32_t half) {
  const Chunk target = part(stage.target, half, 2);
  if (tree.parent) builder.recv(stage.members[*tree.parent], target, stage.channel);
  for (std::uint32_t child : tree.lower) builder.send(stage.members[child], target, stage.channel);
  for (std::uint32_t child : tree.higher) builder.send(stage.members[child], target, stage.channel);
}

}  // namespace

void all_reduce_double_tree(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const TreeNeighbours trees[2] = {{self, n, false}, {self, n, true}};
  // All members go through the four phases in this order, so that messages between two members that are neighbours in
  // both trees match on one channel.
  std::vector<std::uint32_t> units;
  for (std::uint32_t half : {0u, 1u}) reduce_up(builder, stage, trees[half], half, units);
  for (std::uint32_t half : {0u, 1u}) broadcast_down(builder, stage, trees[half], half);
}

}  // namespace foldcast::schedule
