// Direct.
//
// The root sends every member its block.
//
// Steps: 1. The root sends n - 1 messages, (n-1)/n N of the N bytes scattered, which is the least possible.

#include "core/schedule/algorithms/scatter.h"

namespace foldcast::schedule {

void scatter_direct(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const auto root = static_cast<std::uint32_t>(stage.root);
  const Chunk own = stage.target.at(stage.blocks[self]);
  if (self != root) {
    builder.recv(stage.members[root], own, stage.channel);
    return;
  }
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const std::uint32_t to = (self + distance) % n;
    builder.send(stage.members[to], stage.source.at(stage.blocks[to]), stage.channel);
  }
  builder.copy(own, stage.source.at(stage.blocks[self]));
}

}  // namespace foldcast::schedule
