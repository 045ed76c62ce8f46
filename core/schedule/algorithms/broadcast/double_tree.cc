// Double binary tree.
//
// Two complementary binary trees (two_trees.h) span the n - 1 members that are not the root, and each takes one half of
// the vector of N bytes. The root sends each half to the top of its tree, and every member passes on what it receives.
//
// Steps: about log2 n + 1, each a message of N/2. Bytes received per member: N; sent: at most N. So fragments follow
// each other at the speed of a chain, and the first one arrives much sooner.
//
// P. Sanders, J. Speck, J. L. Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
// Parallel Computing 35(12), 2009.

#include "core/schedule/algorithms/broadcast.h"
#include "core/schedule/algorithms/others.h"
#include "core/schedule/algorithms/own_data.h"
#include "core/schedule/algorithms/two_trees.h"

namespace foldcast::schedule {
namespace {

void pass_half(Builder& builder, const Stage& stage, std::uint32_t half) {
  const auto others = static_cast<std::uint32_t>(stage.members.size()) - 1;
  const auto root = static_cast<std::uint32_t>(stage.root);
  const Others numbers{root};
  const TreeNeighbours tree(numbers.number_of(static_cast<std::uint32_t>(stage.self)), others, half == 1);
  const Chunk data = part(stage.target, half, 2);
  builder.recv(stage.members[tree.parent ? numbers.member(*tree.parent) : root], data, stage.channel);
  for (const auto* children : {&tree.lower, &tree.higher}) {
    for (const std::uint32_t child : *children) {
      builder.send(stage.members[numbers.member(child)], data, stage.channel);
    }
  }
}

}  // namespace

void broadcast_double_tree(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (stage.self != stage.root) {
    for (std::uint32_t half : {0u, 1u}) pass_half(builder, stage, half);
    return;
  }
  const Others numbers{static_cast<std::uint32_t>(stage.root)};
  OwnData own(builder, stage.target, stage.source);
  for (std::uint32_t half : {0u, 1u}) {
    if (n == 1) break;
    const std::uint32_t top = numbers.member(top_of_tree(n - 1, half == 1));
    builder.send(stage.members[top], part(own.chunk(), half, 2), stage.channel);
  }
  own.keep();
}

}  // namespace foldcast::schedule
