// The collective calls of foldcast.h, in terms of the fake's one.
#include <chrono>
#include <thread>

#include "tests/tools_perf/fake_collectives.h"

using foldcast::Collective;
using foldcast::tools::testing::blocking;
using foldcast::tools::testing::blocks;
using foldcast::tools::testing::equal_blocks;
using foldcast::tools::testing::note_exchange;
using foldcast::tools::testing::start;
using foldcast::tools::testing::this_rank;

extern "C" {

foldcast_result_t foldcast_all_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_op_t op, foldcast_comm_t comm, void*) {
  return blocking({Collective::kAllReduce, comm, send, recv, dtype, op, 0, count});
}
foldcast_result_t foldcast_iall_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_op_t op, foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kAllReduce, comm, send, recv, dtype, op, 0, count}, request);
}

foldcast_result_t foldcast_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                  foldcast_op_t op, int root, foldcast_comm_t comm, void*) {
  return blocking({Collective::kReduce, comm, send, recv, dtype, op, root, count});
}
foldcast_result_t foldcast_ireduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                   foldcast_op_t op, int root, foldcast_comm_t comm, void*,
                                   foldcast_request_t* request) {
  return start({Collective::kReduce, comm, send, recv, dtype, op, root, count}, request);
}

foldcast_result_t foldcast_broadcast(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                     foldcast_comm_t comm, void*) {
  return blocking({Collective::kBroadcast, comm, send, recv, dtype, FOLDCAST_SUM, root, count});
}
foldcast_result_t foldcast_ibroadcast(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                      foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kBroadcast, comm, send, recv, dtype, FOLDCAST_SUM, root, count}, request);
}

foldcast_result_t foldcast_reduce_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                          foldcast_op_t op, foldcast_comm_t comm, void*) {
  return blocking({Collective::kReduceScatter, comm, send, recv, dtype, op, 0, count, equal_blocks(count)});
}
foldcast_result_t foldcast_ireduce_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                           foldcast_op_t op, foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kReduceScatter, comm, send, recv, dtype, op, 0, count, equal_blocks(count)}, request);
}

foldcast_result_t foldcast_all_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_comm_t comm, void*) {
  return blocking({Collective::kAllGather, comm, send, recv, dtype, FOLDCAST_SUM, 0, count, {}, equal_blocks(count)});
}
foldcast_result_t foldcast_iall_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kAllGather, comm, send, recv, dtype, FOLDCAST_SUM, 0, count, {}, equal_blocks(count)},
               request);
}

foldcast_result_t foldcast_all_to_all(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_comm_t comm, void*) {
  return blocking({Collective::kAllToAll, comm, send, recv, dtype, FOLDCAST_SUM, 0, count, equal_blocks(count),
                   equal_blocks(count)});
}
foldcast_result_t foldcast_iall_to_all(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kAllToAll, comm, send, recv, dtype, FOLDCAST_SUM, 0, count, equal_blocks(count),
                equal_blocks(count)},
               request);
}

foldcast_result_t foldcast_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                  foldcast_comm_t comm, void*) {
  return blocking({Collective::kGather, comm, send, recv, dtype, FOLDCAST_SUM, root, count, {}, equal_blocks(count)});
}
foldcast_result_t foldcast_igather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                   foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kGather, comm, send, recv, dtype, FOLDCAST_SUM, root, count, {}, equal_blocks(count)},
               request);
}

foldcast_result_t foldcast_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                   foldcast_comm_t comm, void*) {
  return blocking({Collective::kScatter, comm, send, recv, dtype, FOLDCAST_SUM, root, count, equal_blocks(count)});
}
foldcast_result_t foldcast_iscatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                    foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kScatter, comm, send, recv, dtype, FOLDCAST_SUM, root, count, equal_blocks(count)},
               request);
}

foldcast_result_t foldcast_reduce_scatterv(const void* send, void* recv, const size_t* counts,
                                           foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm, void*) {
  return blocking({Collective::kReduceScatterV, comm, send, recv, dtype, op, 0, 0, blocks(counts, nullptr)});
}
foldcast_result_t foldcast_ireduce_scatterv(const void* send, void* recv, const size_t* counts,
                                            foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm, void*,
                                            foldcast_request_t* request) {
  return start({Collective::kReduceScatterV, comm, send, recv, dtype, op, 0, 0, blocks(counts, nullptr)}, request);
}

foldcast_result_t foldcast_all_gatherv(const void* send, void* recv, const size_t* counts, const size_t* starts,
                                       foldcast_datatype_t dtype, foldcast_comm_t comm, void*) {
  return blocking({Collective::kAllGatherV,
                   comm,
                   send,
                   recv,
                   dtype,
                   FOLDCAST_SUM,
                   0,
                   counts[this_rank],
                   {},
                   blocks(counts, starts)});
}
foldcast_result_t foldcast_iall_gatherv(const void* send, void* recv, const size_t* counts, const size_t* starts,
                                        foldcast_datatype_t dtype, foldcast_comm_t comm, void*,
                                        foldcast_request_t* request) {
  return start({Collective::kAllGatherV,
                comm,
                send,
                recv,
                dtype,
                FOLDCAST_SUM,
                0,
                counts[this_rank],
                {},
                blocks(counts, starts)},
               request);
}

foldcast_result_t foldcast_all_to_allv(const void* send, const size_t* send_counts, const size_t* send_starts,
                                       void* recv, const size_t* recv_counts, const size_t* recv_starts,
                                       foldcast_datatype_t dtype, foldcast_comm_t comm, void*) {
  return blocking({Collective::kAllToAllV, comm, send, recv, dtype, FOLDCAST_SUM, 0, 0,
                   blocks(send_counts, send_starts), blocks(recv_counts, recv_starts)});
}
foldcast_result_t foldcast_iall_to_allv(const void* send, const size_t* send_counts, const size_t* send_starts,
                                        void* recv, const size_t* recv_counts, const size_t* recv_starts,
                                        foldcast_datatype_t dtype, foldcast_comm_t comm, void*,
                                        foldcast_request_t* request) {
  return start({Collective::kAllToAllV, comm, send, recv, dtype, FOLDCAST_SUM, 0, 0, blocks(send_counts, send_starts),
                blocks(recv_counts, recv_starts)},
               request);
}

foldcast_result_t foldcast_gatherv(const void* send, size_t count, void* recv, const size_t* counts,
                                   const size_t* starts, foldcast_datatype_t dtype, int root, foldcast_comm_t comm,
                                   void*) {
  return blocking(
      {Collective::kGatherV, comm, send, recv, dtype, FOLDCAST_SUM, root, count, {}, blocks(counts, starts)});
}
foldcast_result_t foldcast_igatherv(const void* send, size_t count, void* recv, const size_t* counts,
                                    const size_t* starts, foldcast_datatype_t dtype, int root, foldcast_comm_t comm,
                                    void*, foldcast_request_t* request) {
  return start({Collective::kGatherV, comm, send, recv, dtype, FOLDCAST_SUM, root, count, {}, blocks(counts, starts)},
               request);
}

foldcast_result_t foldcast_scatterv(const void* send, const size_t* counts, const size_t* starts, void* recv,
                                    size_t count, foldcast_datatype_t dtype, int root, foldcast_comm_t comm, void*) {
  return blocking({Collective::kScatterV, comm, send, recv, dtype, FOLDCAST_SUM, root, count, blocks(counts, starts)});
}
foldcast_result_t foldcast_iscatterv(const void* send, const size_t* counts, const size_t* starts, void* recv,
                                     size_t count, foldcast_datatype_t dtype, int root, foldcast_comm_t comm, void*,
                                     foldcast_request_t* request) {
  return start({Collective::kScatterV, comm, send, recv, dtype, FOLDCAST_SUM, root, count, blocks(counts, starts)},
               request);
}

foldcast_result_t foldcast_barrier(foldcast_comm_t comm, void*) {
  return blocking({Collective::kBarrier, comm, nullptr, nullptr, FOLDCAST_INT8});
}
foldcast_result_t foldcast_ibarrier(foldcast_comm_t comm, void*, foldcast_request_t* request) {
  return start({Collective::kBarrier, comm, nullptr, nullptr, FOLDCAST_INT8}, request);
}

foldcast_result_t foldcast_send(const void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                foldcast_comm_t comm, void*) {
  return note_exchange({.kind = Collective::kSendRecv,
                        .comm = comm,
                        .send = buffer,
                        .recv = nullptr,
                        .dtype = dtype,
                        .count = count,
                        .send_peer = peer});
}
foldcast_result_t foldcast_recv(void* buffer, size_t count, foldcast_datatype_t dtype, int peer, foldcast_comm_t comm,
                                void*) {
  return note_exchange({.kind = Collective::kSendRecv,
                        .comm = comm,
                        .send = nullptr,
                        .recv = buffer,
                        .dtype = dtype,
                        .count = count,
                        .recv_peer = peer});
}
foldcast_result_t foldcast_isend(const void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                 foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  *request = new foldcast_request{std::chrono::steady_clock::now()};
  return foldcast_send(buffer, count, dtype, peer, comm, stream);
}
foldcast_result_t foldcast_irecv(void* buffer, size_t count, foldcast_datatype_t dtype, int peer, foldcast_comm_t comm,
                                 void* stream, foldcast_request_t* request) {
  *request = new foldcast_request{std::chrono::steady_clock::now()};
  return foldcast_recv(buffer, count, dtype, peer, comm, stream);
}

foldcast_result_t foldcast_group_start() { return FOLDCAST_SUCCESS; }
foldcast_result_t foldcast_group_end() { return FOLDCAST_SUCCESS; }

foldcast_result_t foldcast_request_wait(foldcast_request_t* request) {
  std::this_thread::sleep_until((*request)->over);
  delete *request;
  *request = nullptr;
  return FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_request_test(foldcast_request_t* request, int* done) {
  *done = std::chrono::steady_clock::now() >= (*request)->over ? 1 : 0;
  return *done != 0 ? foldcast_request_wait(request) : FOLDCAST_SUCCESS;
}

}  // extern "C"
