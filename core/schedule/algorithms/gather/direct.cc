// Direct.
//
// Every member sends its block to the root.
//
// Steps: 1. The root receives n - 1 messages, (n-1)/n N of the N bytes gathered, which is the least possible.

#include "core/schedule/algorithms/gather.h"

namespace foldcast::schedule {

void gather_direct(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const auto root = static_cast<std::uint32_t>(stage.root);
  const Chunk own = stage.source.at(stage.blocks[self]);
  if (self != root) {
    builder.send(stage.members[root], own, stage.channel);
    return;
  }
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const std::uint32_t from = (self + distance) % n;
    builder.recv(stage.members[from], stage.target.at(stage.blocks[from]), stage.channel);
  }
  builder.copy(stage.target.at(stage.blocks[self]), own);
}

}  // namespace foldcast::schedule
