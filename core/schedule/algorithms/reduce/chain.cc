// Chain.
//
// The members stand in a line, in their order around the circle, that ends at the root. Each adds what it receives from
// the one behind it to its own values and sends the sum to the one before it.
//
// Steps: n - 1, each a message of N bytes. Bytes sent and received per member: N, the least possible. With one fragment
// alone that is slow; with many, all members work at the same time and a call takes little longer than N does.
//
// Operands are added from the far end on, so their order is the members' only for some roots.

#include "core/schedule/algorithms/reduce.h"

namespace foldcast::schedule {

void reduce_chain(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const auto root = static_cast<std::uint32_t>(stage.root);
  const std::uint32_t position = (self + n - root) % n;
  Chunk sum = stage.source;
  if (position < n - 1) {
    const Chunk received = in_scratch(stage.source, builder.scratch_unit());
    builder.recv(stage.members[(self + 1) % n], received, stage.channel);
    sum = position == 0 ? stage.target : received;
    builder.reduce(sum, stage.source, received);
  }
  if (position > 0) builder.send(stage.members[(self + n - 1) % n], sum, stage.channel);
}

}  // namespace foldcast::schedule
