// Direct.
//
// Every member sends its block to everyone, the next one first.
//
// Steps: 1, of n - 1 messages of one block. Bytes sent per member: (n-1)/n N of the N bytes gathered, the least
// possible.

#include "core/schedule/algorithms/all_gather.h"
#include "core/schedule/algorithms/own_data.h"

namespace foldcast::schedule {

void all_gather_direct(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  OwnData own(builder, stage.target.at(stage.blocks[self]), stage.source.at(stage.blocks[self]));
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const std::uint32_t from = (self + n - distance) % n;
    builder.send(stage.members[(self + distance) % n], own.chunk(), stage.channel);
    builder.recv(stage.members[from], stage.target.at(stage.blocks[from]), stage.channel);
  }
  own.keep();
}

}  // namespace foldcast::schedule
