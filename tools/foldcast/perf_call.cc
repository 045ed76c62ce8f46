#include "tools/foldcast/perf_call.h"

namespace foldcast::tools {

void BoundCall::run() const {
  switch (call.kind) {
    case Collective::kAllReduce:
      return comm.all_reduce(input(), recv, elements(), op);
    case Collective::kReduce:
      return comm.reduce(input(), recv, elements(), op, call.root);
    case Collective::kBroadcast:
      return comm.broadcast(input(), recv, elements(), call.root);
    case Collective::kReduceScatter:
      return comm.reduce_scatter(input(), recv, elements(), op);
    case Collective::kAllGather:
      return comm.all_gather(input(), recv, elements());
    case Collective::kAllToAll:
      return comm.all_to_all(input(), recv, elements());
    case Collective::kGather:
      return comm.gather(input(), recv, elements(), call.root);
    case Collective::kScatter:
      return comm.scatter(send, output(), elements(), call.root);
    case Collective::kReduceScatterV:
      return comm.reduce_scatterv(input(), recv, layout.send_counts, abi(call.dtype), op);
    case Collective::kAllGatherV:
      return comm.all_gatherv(input(), recv, recv_blocks(), abi(call.dtype));
    case Collective::kAllToAllV:
      return comm.all_to_allv(input(), send_blocks(), recv, recv_blocks(), abi(call.dtype));
    case Collective::kGatherV:
      return comm.gatherv(input(), recv, own(), recv_blocks(), call.root);
    case Collective::kScatterV:
      return comm.scatterv(send, output(), own(), send_blocks(), call.root);
    case Collective::kSendRecv:
      return exchange();
    case Collective::kBarrier:
    case Collective::kNone:
      return comm.barrier();
  }
}

void BoundCall::exchange() const {
  api::Group group;
  comm.send(send, elements(), around(call.rank + 1, call.ranks));
  comm.recv(recv, elements(), around(call.rank - 1, call.ranks));
  group.end();
}

std::vector<api::Request> BoundCall::start() const {
  std::vector<api::Request> requests;
  auto add = [&](api::Request request) { requests.push_back(std::move(request)); };
  switch (call.kind) {
    case Collective::kAllReduce:
      add(comm.iall_reduce(input(), recv, elements(), op));
      break;
    case Collective::kReduce:
      add(comm.ireduce(input(), recv, elements(), op, call.root));
      break;
    case Collective::kBroadcast:
      add(comm.ibroadcast(input(), recv, elements(), call.root));
      break;
    case Collective::kReduceScatter:
      add(comm.ireduce_scatter(input(), recv, elements(), op));
      break;
    case Collective::kAllGather:
      add(comm.iall_gather(input(), recv, elements()));
      break;
    case Collective::kAllToAll:
      add(comm.iall_to_all(input(), recv, elements()));
      break;
    case Collective::kGather:
      add(comm.igather(input(), recv, elements(), call.root));
      break;
    case Collective::kScatter:
      add(comm.iscatter(send, output(), elements(), call.root));
      break;
    case Collective::kReduceScatterV:
      add(comm.ireduce_scatterv(input(), recv, layout.send_counts, abi(call.dtype), op));
      break;
    case Collective::kAllGatherV:
      add(comm.iall_gatherv(input(), recv, recv_blocks(), abi(call.dtype)));
      break;
    case Collective::kAllToAllV:
      add(comm.iall_to_allv(input(), send_blocks(), recv, recv_blocks(), abi(call.dtype)));
      break;
    case Collective::kGatherV:
      add(comm.igatherv(input(), recv, own(), recv_blocks(), call.root));
      break;
    case Collective::kScatterV:
      add(comm.iscatterv(send, output(), own(), send_blocks(), call.root));
      break;
    case Collective::kSendRecv:
      add(comm.irecv(recv, elements(), around(call.rank - 1, call.ranks)));
      add(comm.isend(send, elements(), around(call.rank + 1, call.ranks)));
      break;
    case Collective::kBarrier:
    case Collective::kNone:
      add(comm.ibarrier());
      break;
  }
  return requests;
}

void wait_for(std::vector<api::Request>& requests) {
  for (api::Request& request : requests) request.wait();
}

}  // namespace foldcast::tools
