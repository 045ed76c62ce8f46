// Recursive doubling.
//
// p, the largest power of two up to n, members are the *core*; each of the others, the *extras*, stands behind a core
// member of its own (pairs.h), which first takes over its block and in the end hands it everything else. In between, in
// round k = 0, 1, ... log2 p - 1, core member c exchanges all it has with core member c xor 2^k: a range of blocks that
// doubles each round.
//
// Steps: log2 p, and 2 more when there are extras. Bytes sent per member: about (n-1)/n N of the N bytes gathered, and
// as much again by those with an extra.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19(1),
// 2005.

#include "core/schedule/algorithms/all_gather.h"
#include "core/schedule/algorithms/pairs.h"

namespace foldcast::schedule {

void all_gather_doubling(Builder& builder, const BlockStage& stage) {
  const auto n = static_cast<std::uint32_t>(stage.members.size());
  const auto self = static_cast<std::uint32_t>(stage.self);
  const Pairs pairs(n);
  const auto blocks = [&](std::uint32_t first, std::uint32_t last) {
    return stage.target.at(joined(stage.blocks, first, last));
  };
  builder.copy(blocks(self, self + 1), stage.source.at(stage.blocks[self]));
  if (pairs.is_extra(self)) {
    const std::int32_t core = stage.members[self - 1];
    builder.send(core, blocks(self, self + 1), stage.channel);
    builder.recv(core, blocks(0, self), stage.channel);
    if (self + 1 < n) builder.recv(core, blocks(self + 1, n), stage.channel);
    return;
  }
  const std::uint32_t core = pairs.core_of(self);
  if (pairs.has_extra(core)) builder.recv(stage.members[self + 1], blocks(self + 1, self + 2), stage.channel);
  for (std::uint32_t size = 1; size < pairs.p; size *= 2) {
    const std::uint32_t own = core / size * size;
    const std::uint32_t theirs = own ^ size;
    const std::int32_t partner = stage.members[pairs.member_of(core ^ size)];
    builder.send(partner, blocks(pairs.member_of(own), pairs.member_of(own + size)), stage.channel);
    builder.recv(partner, blocks(pairs.member_of(theirs), pairs.member_of(theirs + size)), stage.channel);
  }
  if (!pairs.has_extra(core)) return;
  builder.send(stage.members[self + 1], blocks(0, self + 1), stage.channel);
  if (self + 2 < n) builder.send(stage.members[self + 1], blocks(self + 2, n), stage.channel);
}

}  // namespace foldcast::schedule
