// Direct.
//
// Every member sends each of its n blocks to its own receiver: at distance 1, 2, ... n - 1 around the circle, so that
// at each distance all members send to different ones.
//
// Steps: 1, of n - 1 messages of one block. Bytes sent per member: (n-1)/n N, the least possible.
//
// In place, block s of the output is still to be sent when what comes from member s arrives; so that waits in a scratch
// unit.

#include "core/schedule/algorithms/all_to_all.h"

namespace foldcast::schedule {

void all_to_all_direct(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  builder.set_apart(!stage.in_place);
  const bool waits = stage.in_place && n > 1;
  const Place landing = waits ? Place{Space::kScratch, builder.scratch_unit()} : stage.target;
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const std::uint32_t to = (self + distance) % n;
    const std::uint32_t from = (self + n - distance) % n;
    builder.send(stage.members[to], stage.source.at(stage.blocks[to]), stage.channel);
    builder.recv(stage.members[from], landing.at(stage.blocks[from]), stage.channel);
  }
  builder.copy(stage.target.at(stage.blocks[self]), stage.source.at(stage.blocks[self]));
  if (!waits) return;
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const Part& block = stage.blocks[(self + n - distance) % n];
    builder.copy(stage.target.at(block), landing.at(block));
  }
}

}  // namespace foldcast::schedule
