// Double binary tree.
//
// Two complementary binary trees (two_trees.h) span the n - 1 members that are not the root, and each takes one half of
// the vector of N bytes. A member adds its children's partial sums to its own values and sends the sum to its parent;
// the tops of the trees send theirs to the root.
//
// Steps: about log2 n + 1, each a message of N/2. Bytes sent per member: N; received: at most N. So fragments follow
// each other at the speed of a chain, and the first one arrives much sooner.
//
// Partial sums stay in scratch; the root's output gets nothing but results.
//
// P. Sanders, J. Speck, J. L. Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
// Parallel Computing 35(12), 2009.

#include "core/schedule/algorithms/others.h"
#include "core/schedule/algorithms/reduce.h"
#include "core/schedule/algorithms/two_trees.h"

namespace foldcast::schedule {
namespace {

void reduce_half(Builder& builder, const Stage& stage, std::uint32_t half, std::vector<std::uint32_t>& units) {
  const auto others = static_cast<std::uint32_t>(stage.members.size()) - 1;
  const Others numbers{static_cast<std::uint32_t>(stage.root)};
  const TreeNeighbours tree(numbers.number_of(static_cast<std::uint32_t>(stage.self)), others, half == 1);
  std::vector<std::uint32_t> children = tree.lower;
  children.insert(children.end(), tree.higher.begin(), tree.higher.end());
  // A member is inner in one tree and the trees use different halves of a unit.
  while (units.size() < children.size()) units.push_back(builder.scratch_unit());
  Chunk sum = part(stage.source, half, 2);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Chunk received = in_scratch(part(stage.source, half, 2), units[i]);
    builder.recv(stage.members[numbers.member(children[i])], received, stage.channel);
    const bool is_lower = i < tree.lower.size();
    builder.reduce(received, is_lower ? received : sum, is_lower ? sum : received);
    sum = received;
  }
  const std::uint32_t parent = tree.parent ? numbers.member(*tree.parent) : static_cast<std::uint32_t>(stage.root);
  builder.send(stage.members[parent], sum, stage.channel);
}

}  // namespace

void reduce_double_tree(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  std::vector<std::uint32_t> units;
  if (stage.self != stage.root) {
    for (std::uint32_t half : {0u, 1u}) reduce_half(builder, stage, half, units);
    return;
  }
  const Others numbers{static_cast<std::uint32_t>(stage.root)};
  const std::uint32_t unit = builder.scratch_unit();
  for (std::uint32_t half : {0u, 1u}) {
    const Chunk own = part(stage.source, half, 2);
    const Chunk received = in_scratch(own, unit);
    builder.recv(stage.members[numbers.member(top_of_tree(n - 1, half == 1))], received, stage.channel);
    builder.reduce(part(stage.target, half, 2), own, received);
  }
}

}  // namespace foldcast::schedule
