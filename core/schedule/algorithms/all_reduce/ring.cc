// Ring.
//
// The n members stand in a circle and the vector of N bytes is cut into n *parts*. In the reduce-scatter, each part
// travels once around: part j starts at member j, every member on its way adds its own values, and member j - 1, the
// last, has the finished part. In the all-gather, the finished parts travel around once more and are stored by
// everyone.
//
// Steps: 2(n-1), each a message of N/n to the next member. Bytes sent per member: 2(n-1)/n N, the least possible.
//
// A partial sum lives in scratch, at its part's place in one unit, until it is finished. So no two receives of the
// reduce-scatter share memory (all can be posted at once, and part k+1 arrives while part k is added), and the output
// gets nothing but results: also in place, each part of it is a member's own input until it is the result.
//
// P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69(2), 2009.

#include "core/schedule/algorithms/all_reduce.h"

namespace foldcast::schedule {

void all_reduce_ring(Builder& builder, const Stage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  if (n == 1) {
    builder.copy(stage.target, stage.source);
    return;
  }
  const auto self = static_cast<std::uint32_t>(stage.self);
  const std::int32_t next = stage.members[(self + 1) % n];
  const std::int32_t previous = stage.members[(self + n - 1) % n];
  const std::uint32_t unit = builder.scratch_unit();
  auto source = [&](std::uint32_t j) { return part(stage.source, j, n); };
  auto target = [&](std::uint32_t j) { return part(stage.target, j, n); };
  auto partial = [&](std::uint32_t j) { return in_scratch(target(j), unit); };
  auto behind = [&](std::uint32_t distance) { return (self + n - distance) % n; };

  builder.send(next, source(self), stage.channel);
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    const std::uint32_t j = behind(distance);
    const Chunk sum = distance == n - 1 ? target(j) : partial(j);
    builder.recv(previous, partial(j), stage.channel);
    builder.reduce(sum, partial(j), source(j));
    builder.send(next, sum, stage.channel);  // the last of these is the first of the all-gather
  }
  for (std::uint32_t distance = 0; distance < n - 1; ++distance) {
    const Chunk finished = target(behind(distance));
    builder.recv(previous, finished, stage.channel);
    if (distance < n - 2) builder.send(next, finished, stage.channel);
  }
}

}  // namespace foldcast::schedule
