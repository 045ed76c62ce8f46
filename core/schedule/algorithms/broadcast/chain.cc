// Chain.
//
// The members stand in a line, in their order around the circle, that begins at the root. Each passes on what it
// receives.
//
// Steps: n - 1, each a message of N bytes. Bytes sent and received per member: N, the least possible. With one fragment
// alone that is slow; with many, all members work at the same time and a call takes little longer than N does.

#include "core/schedule/algorithms/broadcast.h"
#include "core/schedule/algorithms/own_data.h"

namespace foldcast::schedule {

void broadcast_chain(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const auto root = static_cast<std::uint32_t>(stage.root);
  const std::uint32_t position = (self + n - root) % n;
  const auto pass_on = [&](const Chunk& data) {
    if (position < n - 1) builder.send(stage.members[(self + 1) % n], data, stage.channel);
  };
  if (position == 0) {
    OwnData own(builder, stage.target, stage.source);
    pass_on(own.chunk());
    own.keep();
  } else {
    builder.recv(stage.members[(self + n - 1) % n], stage.target, stage.channel);
    pass_on(stage.target);
  }
}

}  // namespace foldcast::schedule
