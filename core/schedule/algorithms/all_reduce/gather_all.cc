// Gather all.
//
// Every member sends its whole vector of N bytes to everyone, and everyone adds all of them, in the members' order: for
// messages so small that only the number of rounds counts.
//
// Steps: 1, of n - 1 messages of N. Bytes sent per member: (n-1) N.
//
// What arrives waits in up to eight scratch units; the output gets nothing but the result.

#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/scratch_ring.h"

namespace foldcast::schedule {

void all_reduce_gather_all(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  Chunk own = stage.source;
  if (builder.rounding()) {  // everyone must add the same operands: the rounded ones
    own = in_scratch(stage.target, builder.scratch_unit());
    builder.copy(own, stage.source);
  }
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    builder.send(stage.members[(self + distance) % n], own, stage.channel);
  }
  ScratchRing<8> scratch(builder);
  Chunk sum = own;
  for (std::uint32_t member = 0; member < n; ++member) {
    Chunk operand = own;
    if (member != self) {
      operand = scratch.next(stage.target);
      builder.recv(stage.members[member], operand, stage.channel);
    }
    if (member > 0) {
      const Chunk wider = member == n - 1 ? stage.target : member == self ? sum : operand;
      builder.reduce(wider, sum, operand);
      operand = wider;
    }
    sum = operand;
  }
}

}  // namespace foldcast::schedule
