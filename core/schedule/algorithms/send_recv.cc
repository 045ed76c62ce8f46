#include "core/schedule/algorithms/send_recv.h"

namespace foldcast::schedule {

void send_recv_direct(Builder& builder, const Stage& stage) {
  const std::int32_t peer = stage.members[stage.self == 0 ? 1 : 0];
  if (stage.self == stage.root) {
    builder.send(peer, stage.source, stage.channel);
  } else {
    builder.recv(peer, stage.target, stage.channel);
  }
}

}  // namespace foldcast::schedule
