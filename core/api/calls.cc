// The collective calls of the C ABI: each packs its arguments, in a blocking and a non-blocking form.

#include "core/api/call_group.h"
#include "core/api/foldcast.h"
#include "core/api/handles.h"

using foldcast::Collective;
using foldcast::Status;
using foldcast::api::BlockList;
using foldcast::api::CallGroup;
using foldcast::api::CollectiveCall;
using foldcast::api::guarded;

namespace {

/// What nearly all calls have.
struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  foldcast_datatype_t dtype = FOLDCAST_UINT8;
};

CollectiveCall make(Collective kind, const Buffers& buffers, foldcast_op_t op = FOLDCAST_SUM, int root = 0) {
  CollectiveCall call;
  call.kind = kind;
  call.send = buffers.send;
  call.recv = buffers.recv;
  call.count = buffers.count;
  call.dtype = foldcast::api::narrow<foldcast::Datatype>(buffers.dtype);
  call.op = foldcast::api::narrow<foldcast::ReduceOp>(op);
  call.root = root;
  return call;
}

CollectiveCall message(const Buffers& buffers, int peer, bool sends) {
  CollectiveCall call = make(Collective::kSendRecv, buffers, FOLDCAST_SUM, peer);
  call.sends = sends;
  return call;
}

CollectiveCall with_blocks(CollectiveCall call, const BlockList& sent, const BlockList& received) {
  call.sent = sent;
  call.received = received;
  return call;
}

Status check(foldcast_comm_t comm, const void* stream) {
  FOLDCAST_RETURN_IF_ERROR(foldcast::api::need(comm, "the communicator"));
  if (stream == nullptr) return foldcast::ok_status();
  return foldcast::unsupported("a stream was given, but this build works on host memory only: pass NULL");
}

foldcast_result_t blocking(const CollectiveCall& call, foldcast_comm_t comm, const void* stream) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(check(comm, stream));
    CallGroup& group = CallGroup::of_this_thread();
    if (group.is_open()) return group.note(call, *comm->communicator, nullptr);
    return comm->communicator->run(call);
  });
}

foldcast_result_t nonblocking(const CollectiveCall& call, foldcast_comm_t comm, const void* stream,
                              foldcast_request_t* request) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(foldcast::api::need(request, "the request pointer"));
    *request = nullptr;
    FOLDCAST_RETURN_IF_ERROR(check(comm, stream));
    CallGroup& group = CallGroup::of_this_thread();
    if (group.is_open()) return group.note(call, *comm->communicator, request);
    auto made = std::make_unique<foldcast_request>();
    made->communicator = comm->communicator.get();
    FOLDCAST_RETURN_IF_ERROR(comm->communicator->start(call, made->operation));
    *request = made.release();
    return foldcast::ok_status();
  });
}

Status wait(foldcast_request_t* request) {
  if (*request == nullptr) return foldcast::ok_status();
  if ((*request)->noted) return foldcast::api::finish(**request);  // an error; the request stays
  const std::unique_ptr<foldcast_request> owned(*request);
  *request = nullptr;
  return foldcast::api::finish(*owned);
}

}  // namespace

extern "C" {

foldcast_result_t foldcast_all_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_op_t op, foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kAllReduce, {send, recv, count, dtype}, op), comm, stream);
}

foldcast_result_t foldcast_iall_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_op_t op, foldcast_comm_t comm, void* stream,
                                       foldcast_request_t* request) {
  return nonblocking(make(Collective::kAllReduce, {send, recv, count, dtype}, op), comm, stream, request);
}

foldcast_result_t foldcast_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                  foldcast_op_t op, int root, foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kReduce, {send, recv, count, dtype}, op, root), comm, stream);
}

foldcast_result_t foldcast_ireduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                   foldcast_op_t op, int root, foldcast_comm_t comm, void* stream,
                                   foldcast_request_t* request) {
  return nonblocking(make(Collective::kReduce, {send, recv, count, dtype}, op, root), comm, stream, request);
}

foldcast_result_t foldcast_broadcast(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                     foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kBroadcast, {send, recv, count, dtype}, FOLDCAST_SUM, root), comm, stream);
}

foldcast_result_t foldcast_ibroadcast(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                      foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(make(Collective::kBroadcast, {send, recv, count, dtype}, FOLDCAST_SUM, root), comm, stream,
                     request);
}

foldcast_result_t foldcast_reduce_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                          foldcast_op_t op, foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kReduceScatter, {send, recv, count, dtype}, op), comm, stream);
}

foldcast_result_t foldcast_ireduce_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                           foldcast_op_t op, foldcast_comm_t comm, void* stream,
                                           foldcast_request_t* request) {
  return nonblocking(make(Collective::kReduceScatter, {send, recv, count, dtype}, op), comm, stream, request);
}

foldcast_result_t foldcast_all_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kAllGather, {send, recv, count, dtype}), comm, stream);
}

foldcast_result_t foldcast_iall_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(make(Collective::kAllGather, {send, recv, count, dtype}), comm, stream, request);
}

foldcast_result_t foldcast_all_to_all(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kAllToAll, {send, recv, count, dtype}), comm, stream);
}

foldcast_result_t foldcast_iall_to_all(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(make(Collective::kAllToAll, {send, recv, count, dtype}), comm, stream, request);
}

foldcast_result_t foldcast_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                  foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kGather, {send, recv, count, dtype}, FOLDCAST_SUM, root), comm, stream);
}

foldcast_result_t foldcast_igather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                   foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(make(Collective::kGather, {send, recv, count, dtype}, FOLDCAST_SUM, root), comm, stream, request);
}

foldcast_result_t foldcast_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                   foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kScatter, {send, recv, count, dtype}, FOLDCAST_SUM, root), comm, stream);
}

foldcast_result_t foldcast_iscatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                    foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(make(Collective::kScatter, {send, recv, count, dtype}, FOLDCAST_SUM, root), comm, stream, request);
}

foldcast_result_t foldcast_barrier(foldcast_comm_t comm, void* stream) {
  return blocking(make(Collective::kBarrier, {}), comm, stream);
}

foldcast_result_t foldcast_ibarrier(foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(make(Collective::kBarrier, {}), comm, stream, request);
}

foldcast_result_t foldcast_send(const void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                foldcast_comm_t comm, void* stream) {
  return blocking(message({buffer, nullptr, count, dtype}, peer, true), comm, stream);
}

foldcast_result_t foldcast_isend(const void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                 foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(message({buffer, nullptr, count, dtype}, peer, true), comm, stream, request);
}

foldcast_result_t foldcast_recv(void* buffer, size_t count, foldcast_datatype_t dtype, int peer, foldcast_comm_t comm,
                                void* stream) {
  return blocking(message({nullptr, buffer, count, dtype}, peer, false), comm, stream);
}

foldcast_result_t foldcast_irecv(void* buffer, size_t count, foldcast_datatype_t dtype, int peer, foldcast_comm_t comm,
                                 void* stream, foldcast_request_t* request) {
  return nonblocking(message({nullptr, buffer, count, dtype}, peer, false), comm, stream, request);
}

foldcast_result_t foldcast_reduce_scatterv(const void* send, void* recv, const size_t* counts,
                                           foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm,
                                           void* stream) {
  return blocking(with_blocks(make(Collective::kReduceScatterV, {send, recv, 0, dtype}, op), {}, {counts, nullptr}),
                  comm, stream);
}

foldcast_result_t foldcast_ireduce_scatterv(const void* send, void* recv, const size_t* counts,
                                            foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm,
                                            void* stream, foldcast_request_t* request) {
  return nonblocking(with_blocks(make(Collective::kReduceScatterV, {send, recv, 0, dtype}, op), {}, {counts, nullptr}),
                     comm, stream, request);
}

foldcast_result_t foldcast_all_gatherv(const void* send, void* recv, const size_t* counts, const size_t* displacements,
                                       foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream) {
  return blocking(with_blocks(make(Collective::kAllGatherV, {send, recv, 0, dtype}), {}, {counts, displacements}), comm,
                  stream);
}

foldcast_result_t foldcast_iall_gatherv(const void* send, void* recv, const size_t* counts, const size_t* displacements,
                                        foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream,
                                        foldcast_request_t* request) {
  return nonblocking(with_blocks(make(Collective::kAllGatherV, {send, recv, 0, dtype}), {}, {counts, displacements}),
                     comm, stream, request);
}

foldcast_result_t foldcast_all_to_allv(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                       void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                       foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream) {
  return blocking(with_blocks(make(Collective::kAllToAllV, {send, recv, 0, dtype}), {send_counts, send_displacements},
                              {recv_counts, recv_displacements}),
                  comm, stream);
}

foldcast_result_t foldcast_iall_to_allv(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                        void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                        foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream,
                                        foldcast_request_t* request) {
  return nonblocking(with_blocks(make(Collective::kAllToAllV, {send, recv, 0, dtype}),
                                 {send_counts, send_displacements}, {recv_counts, recv_displacements}),
                     comm, stream, request);
}

foldcast_result_t foldcast_gatherv(const void* send, size_t count, void* recv, const size_t* counts,
                                   const size_t* displacements, foldcast_datatype_t dtype, int root,
                                   foldcast_comm_t comm, void* stream) {
  return blocking(with_blocks(make(Collective::kGatherV, {send, recv, count, dtype}, FOLDCAST_SUM, root), {},
                              {counts, displacements}),
                  comm, stream);
}

foldcast_result_t foldcast_igatherv(const void* send, size_t count, void* recv, const size_t* counts,
                                    const size_t* displacements, foldcast_datatype_t dtype, int root,
                                    foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return nonblocking(with_blocks(make(Collective::kGatherV, {send, recv, count, dtype}, FOLDCAST_SUM, root), {},
                                 {counts, displacements}),
                     comm, stream, request);
}

foldcast_result_t foldcast_scatterv(const void* send, const size_t* counts, const size_t* displacements, void* recv,
                                    size_t count, foldcast_datatype_t dtype, int root, foldcast_comm_t comm,
                                    void* stream) {
  return blocking(with_blocks(make(Collective::kScatterV, {send, recv, count, dtype}, FOLDCAST_SUM, root),
                              {counts, displacements}, {}),
                  comm, stream);
}

foldcast_result_t foldcast_iscatterv(const void* send, const size_t* counts, const size_t* displacements, void* recv,
                                     size_t count, foldcast_datatype_t dtype, int root, foldcast_comm_t comm,
                                     void* stream, foldcast_request_t* request) {
  return nonblocking(with_blocks(make(Collective::kScatterV, {send, recv, count, dtype}, FOLDCAST_SUM, root),
                                 {counts, displacements}, {}),
                     comm, stream, request);
}

foldcast_result_t foldcast_group_start(void) {
  CallGroup::of_this_thread().enter();
  return FOLDCAST_SUCCESS;
}

foldcast_result_t foldcast_group_end(void) {
  return guarded([] { return CallGroup::of_this_thread().leave(); });
}

foldcast_result_t foldcast_request_test(foldcast_request_t* request, int* done) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(foldcast::api::need(request, "the request pointer"));
    FOLDCAST_RETURN_IF_ERROR(foldcast::api::need(done, "the result pointer"));
    if (*request != nullptr) FOLDCAST_RETURN_IF_ERROR(foldcast::api::need_own((*request)->process));
    *done = *request == nullptr || foldcast::api::test(**request);
    return *done != 0 ? wait(request) : foldcast::ok_status();
  });
}

foldcast_result_t foldcast_request_wait(foldcast_request_t* request) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(foldcast::api::need(request, "the request pointer"));
    if (*request != nullptr) FOLDCAST_RETURN_IF_ERROR(foldcast::api::need_own((*request)->process));
    return wait(request);
  });
}

}  // extern "C"
