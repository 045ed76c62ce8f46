/* Foldcast: collectives that are reduced inside the network where that wins, on the hosts where it does not.
 *
 * Conventions. Counts are elements, not bytes, and 64-bit. All ranks of a communicator make the same calls in the same
 * order with the same count, datatype, op and root; a difference is reported as FOLDCAST_MISMATCH: at once where
 * messages of the two calls meet, else when the time-out ends the wait. A function returns FOLDCAST_SUCCESS or an error
 * whose one-line explanation foldcast_last_error() gives to the calling thread. After FOLDCAST_PEER_FAILED,
 * FOLDCAST_TIMED_OUT or FOLDCAST_MISMATCH the communicator is broken: its later calls return FOLDCAST_ABORTED, and it
 * can only be shrunk, aborted or destroyed.
 *
 * Threads. Different threads may use different communicators at the same time; one communicator's calls come from one
 * thread at a time, but for foldcast_comm_abort, which any thread may call at any time. Calls progress inside
 * foldcast_* functions of any communicator, or on a thread of their own with FOLDCAST_PROGRESS_THREAD=1. */
#ifndef FOLDCAST_H_
#define FOLDCAST_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#error "Foldcast runs on Linux"
#endif
#define FOLDCAST_API __attribute__((visibility("default")))

/* Any int may come in: what is no enumerator is refused with a message, not undefined behaviour. */
#ifdef __cplusplus
#define FOLDCAST_ENUM_INT : int
#else
#define FOLDCAST_ENUM_INT
#endif

#define FOLDCAST_VERSION_MAJOR 0
#define FOLDCAST_VERSION_MINOR 1
#define FOLDCAST_VERSION_PATCH 0
#define FOLDCAST_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum foldcast_result FOLDCAST_ENUM_INT {
  FOLDCAST_SUCCESS = 0,
  FOLDCAST_INVALID_ARGUMENT = 1,
  FOLDCAST_UNSUPPORTED = 2,
  FOLDCAST_UNAVAILABLE = 3,
  FOLDCAST_TIMED_OUT = 4,
  FOLDCAST_PEER_FAILED = 5,
  FOLDCAST_MISMATCH = 6,
  FOLDCAST_RESOURCE_EXHAUSTED = 7,
  FOLDCAST_ABORTED = 8,
  FOLDCAST_SYSTEM_ERROR = 9,
  FOLDCAST_INTERNAL_ERROR = 10
} foldcast_result_t;

typedef enum foldcast_datatype FOLDCAST_ENUM_INT {
  FOLDCAST_INT8 = 0,
  FOLDCAST_UINT8 = 1,
  FOLDCAST_INT16 = 2,
  FOLDCAST_UINT16 = 3,
  FOLDCAST_INT32 = 4,
  FOLDCAST_UINT32 = 5,
  FOLDCAST_INT64 = 6,
  FOLDCAST_UINT64 = 7,
  FOLDCAST_FLOAT16 = 8,
  FOLDCAST_BFLOAT16 = 9,
  FOLDCAST_FLOAT32 = 10,
  FOLDCAST_FLOAT64 = 11,
  FOLDCAST_FLOAT8_E4M3 = 12, /* OCP: no infinity, largest 448 */
  FOLDCAST_FLOAT8_E5M2 = 13, /* OCP: largest 57344 */
  FOLDCAST_BOOL = 14         /* one byte: zero or not; results are 0 or 1 */
} foldcast_datatype_t;

/* Integers wrap. Float min and max: NaN wins, -0 < +0. avg divides the whole sum once; integers round toward zero.
 * Logical and bitwise ops are for integers and bool; of bool, sum and max are lor, prod and min land, and there is no
 * avg. Values from 64 on come from foldcast_op_create and foldcast_op_create_premul_sum. */
typedef enum foldcast_op FOLDCAST_ENUM_INT {
  FOLDCAST_SUM = 0,
  FOLDCAST_PROD = 1,
  FOLDCAST_MIN = 2,
  FOLDCAST_MAX = 3,
  FOLDCAST_AVG = 4,
  FOLDCAST_LAND = 5,
  FOLDCAST_LOR = 6,
  FOLDCAST_LXOR = 7,
  FOLDCAST_BAND = 8,
  FOLDCAST_BOR = 9,
  FOLDCAST_BXOR = 10
} foldcast_op_t;

typedef enum foldcast_collective FOLDCAST_ENUM_INT {
  FOLDCAST_ALL_REDUCE = 1,
  FOLDCAST_BARRIER = 2,
  FOLDCAST_REDUCE = 3,
  FOLDCAST_BROADCAST = 4,
  FOLDCAST_REDUCE_SCATTER = 5,
  FOLDCAST_ALL_GATHER = 6,
  FOLDCAST_ALL_TO_ALL = 7,
  FOLDCAST_GATHER = 8,
  FOLDCAST_SCATTER = 9,
  FOLDCAST_SEND_RECV = 10,
  FOLDCAST_REDUCE_SCATTERV = 11,
  FOLDCAST_ALL_GATHERV = 12,
  FOLDCAST_ALL_TO_ALLV = 13,
  FOLDCAST_GATHERV = 14,
  FOLDCAST_SCATTERV = 15
} foldcast_collective_t;

/* How float32 travels between nodes. Everything but EXACT trades accuracy for bytes (a half, a half, a quarter); sums
 * are kept in float32. docs/numbers.md has the error bounds. */
typedef enum foldcast_wire_format FOLDCAST_ENUM_INT {
  FOLDCAST_WIRE_EXACT = 0,
  FOLDCAST_WIRE_BFLOAT16 = 1,
  FOLDCAST_WIRE_FLOAT16 = 2,
  FOLDCAST_WIRE_FLOAT8 = 3 /* E4M3 with a common power of two for every 32 values */
} foldcast_wire_format_t;

/* Which way a communicator's calls may go. AUTO: whatever is priced cheaper. OFFLOAD: through the aggregation tree
 * where one was joined, else (counted and logged) on the hosts. HOST: never through a tree. */
typedef enum foldcast_path FOLDCAST_ENUM_INT {
  FOLDCAST_PATH_AUTO = 0,
  FOLDCAST_PATH_OFFLOAD = 1,
  FOLDCAST_PATH_HOST = 2
} foldcast_path_t;

typedef struct foldcast_comm* foldcast_comm_t;
typedef struct foldcast_request* foldcast_request_t;

/* As `send`: the input is in `recv`, which is where the result goes. all_reduce, reduce and broadcast (on the root),
 * all_to_all: it is replaced. all_gather, gather (on the root): the rank's own block is at its place already.
 * reduce_scatter: `recv` holds all blocks, and the rank's result goes to its start. scatter: on the root, as `recv`:
 * its own block stays where it is. Passing pointers that say the same (recv as send, recv + rank * count as send, send
 * + rank * count as recv) is the same. */
#define FOLDCAST_IN_PLACE ((void*)1)
/* As colour of foldcast_comm_split: this rank is in none. */
#define FOLDCAST_UNDEFINED (-1)

/* "0.1.0". */
FOLDCAST_API const char* foldcast_version(void);
FOLDCAST_API const char* foldcast_result_string(foldcast_result_t result);
FOLDCAST_API const char* foldcast_datatype_string(foldcast_datatype_t dtype);
FOLDCAST_API const char* foldcast_op_string(foldcast_op_t op);
FOLDCAST_API const char* foldcast_collective_string(foldcast_collective_t kind);
FOLDCAST_API const char* foldcast_wire_format_string(foldcast_wire_format_t format);
/* Bytes of one element; 0 for an unknown datatype. */
FOLDCAST_API size_t foldcast_datatype_size(foldcast_datatype_t dtype);
/* What the calling thread's last failed call had to say; "" when none failed. Valid until its next call. */
FOLDCAST_API const char* foldcast_last_error(void);

/* Joins the job: rank, size and rendezvous come from the launch environment (FOLDCAST_RANK/SIZE/STORE, else torchrun,
 * Open MPI, PMI, Slurm, else a job of one). Collective over all ranks; returns when all are connected or the set-up
 * time-out (FOLDCAST_SETUP_TIMEOUT) has passed. */
FOLDCAST_API foldcast_result_t foldcast_comm_init(foldcast_comm_t* comm);
/* Local: no rank waits for another, and communicators may be destroyed in any order. Outstanding requests must have
 * been waited for. NULL is allowed. */
FOLDCAST_API foldcast_result_t foldcast_comm_destroy(foldcast_comm_t comm);

/* Collective over `comm`: one new communicator per colour (>= 0), its ranks ordered by key, then by their old rank.
 * *made is NULL where the colour is FOLDCAST_UNDEFINED. Connections and memory are shared with the other communicators
 * of the process. */
FOLDCAST_API foldcast_result_t foldcast_comm_split(foldcast_comm_t comm, int colour, int key, foldcast_comm_t* made);
/* Collective: the same ranks, but calls of its own. */
FOLDCAST_API foldcast_result_t foldcast_comm_dup(foldcast_comm_t comm, foldcast_comm_t* made);
/* Collective over the ranks of `comm` that are still alive, after an error: a communicator of those, in the old order.
 * `comm` may be broken; it stays so. FOLDCAST_TIMED_OUT when a live rank does not call it within the set-up time-out.
 */
FOLDCAST_API foldcast_result_t foldcast_comm_shrink(foldcast_comm_t comm, foldcast_comm_t* made);
/* Breaks the communicator on this rank at once: outstanding and later calls return FOLDCAST_ABORTED, here and, as soon
 * as they notice, on the other ranks. Any thread may call it while another waits in a call. */
FOLDCAST_API foldcast_result_t foldcast_comm_abort(foldcast_comm_t comm);

FOLDCAST_API foldcast_result_t foldcast_comm_rank(foldcast_comm_t comm, int* rank);
FOLDCAST_API foldcast_result_t foldcast_comm_size(foldcast_comm_t comm, int* size);
FOLDCAST_API foldcast_result_t foldcast_comm_local_rank(foldcast_comm_t comm, int* local_rank);
/* How many nodes (hosts that share memory) the communicator spans, and the one this rank is on, from 0. */
FOLDCAST_API foldcast_result_t foldcast_comm_node_count(foldcast_comm_t comm, int* nodes);
FOLDCAST_API foldcast_result_t foldcast_comm_node(foldcast_comm_t comm, int* node);

/* Same value on all ranks, between calls. */
FOLDCAST_API foldcast_result_t foldcast_comm_set_path(foldcast_comm_t comm, foldcast_path_t path);
/* Forces the algorithm between nodes by name ("ring", "recursive_doubling", "halving_doubling", "double_tree", "tree",
 * ...); collectives that do not know it choose by price. NULL or "": chosen by price. Same value on all ranks.
 * FOLDCAST_INVALID_ARGUMENT names the known ones. */
FOLDCAST_API foldcast_result_t foldcast_comm_set_plan(foldcast_comm_t comm, const char* name);
/* How float32 of reductions travels between nodes from the next call on. Same value on all ranks. */
FOLDCAST_API foldcast_result_t foldcast_comm_set_wire_format(foldcast_comm_t comm, foldcast_wire_format_t format);

/* Collective: measures the links between and inside the nodes anew, uses the numbers from now on and keeps them for
 * later jobs of this shape (see FOLDCAST_CALIBRATION). Jobs do it by themselves when they find no numbers, or wrong
 * ones. With several rails no other call of this job may be outstanding, on whichever communicator: messages are cut
 * anew. */
FOLDCAST_API foldcast_result_t foldcast_comm_calibrate(foldcast_comm_t comm);

/* A call's shape, for questions about it. Fields that its collective does not have are ignored. */
typedef struct foldcast_shape {
  foldcast_collective_t collective;
  size_t count; /* as in the call; of the variable-count ones: a rank's mean count */
  foldcast_datatype_t dtype;
  foldcast_op_t op;
  int root; /* of send_recv: the peer */
} foldcast_shape_t;
/* What a call of this shape would run as. */
typedef struct foldcast_plan_info {
  foldcast_path_t path; /* OFFLOAD or HOST */
  char name[64];        /* "ring", "node+tree", ... */
  double price_us;      /* what the estimate says it takes */
} foldcast_plan_info_t;
FOLDCAST_API foldcast_result_t foldcast_plan(foldcast_comm_t comm, const foldcast_shape_t* shape,
                                             foldcast_plan_info_t* info);
/* The choice, each rejected candidate with its reason and price, as text; the same on every rank. `text` stays valid
 * until the communicator's next question for a text. */
FOLDCAST_API foldcast_result_t foldcast_explain(foldcast_comm_t comm, const foldcast_shape_t* shape, const char** text);
/* The steps of all ranks of that plan, for one fragment: as lines, or as a Graphviz graph ("dot -Tsvg"). The same on
 * every rank; valid as the explanation is. */
typedef enum foldcast_steps_format FOLDCAST_ENUM_INT {
  FOLDCAST_STEPS_TEXT = 0,
  FOLDCAST_STEPS_GRAPHVIZ = 1
} foldcast_steps_format_t;
FOLDCAST_API foldcast_result_t foldcast_steps(foldcast_comm_t comm, const foldcast_shape_t* shape,
                                              foldcast_steps_format_t format, const char** text);

/* result[i] = left[i] op right[i], i < count, written to `right`. `left` comes from lower ranks. Called from whatever
 * thread makes progress; must not call Foldcast. */
typedef void (*foldcast_op_function_t)(const void* left, void* right, size_t count, foldcast_datatype_t dtype,
                                       void* context);
/* An op of the application: associative, and where `commutative` is 0 applied in rank order. All ranks create their ops
 * in the same order. FOLDCAST_RESOURCE_EXHAUSTED when 192 exist. */
FOLDCAST_API foldcast_result_t foldcast_op_create(foldcast_op_function_t function, int commutative, void* context,
                                                  foldcast_op_t* op);
/* A sum in which this rank's contribution is first multiplied by *scalar, one element of `dtype`, the only datatype it
 * may then be used with. The scalar may differ between ranks. */
FOLDCAST_API foldcast_result_t foldcast_op_create_premul_sum(const void* scalar, foldcast_datatype_t dtype,
                                                             foldcast_op_t* op);
/* No call with it may be outstanding. */
FOLDCAST_API foldcast_result_t foldcast_op_destroy(foldcast_op_t op);

/* Collective calls. Unless said otherwise: buffers are host memory of any alignment; `send` and `recv` do not overlap
 * but for FOLDCAST_IN_PLACE; zero counts succeed (buffers may then be NULL); arguments that only the root looks at may
 * be anything elsewhere; `stream` is reserved and must be NULL. n is the communicator's size, rank the caller's.
 *
 * Each has a non-blocking form with an i in front: buffers and arrays belong to the call until the request has been
 * tested complete or waited for. */

/* recv[i] = op over all ranks of send[i], i < count. */
FOLDCAST_API foldcast_result_t foldcast_all_reduce(const void* send, void* recv, size_t count,
                                                   foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm,
                                                   void* stream);
/* The same on `root` only; `recv` is looked at there only. */
FOLDCAST_API foldcast_result_t foldcast_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                               foldcast_op_t op, int root, foldcast_comm_t comm, void* stream);
/* recv[i] = the root's send[i], i < count. `send` is looked at on the root only. */
FOLDCAST_API foldcast_result_t foldcast_broadcast(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                                  int root, foldcast_comm_t comm, void* stream);
/* recv[i] = op over all ranks of send[rank * count + i], i < count: `send` has n * count elements. */
FOLDCAST_API foldcast_result_t foldcast_reduce_scatter(const void* send, void* recv, size_t count,
                                                       foldcast_datatype_t dtype, foldcast_op_t op,
                                                       foldcast_comm_t comm, void* stream);
/* recv[r * count + i] = rank r's send[i], i < count. */
FOLDCAST_API foldcast_result_t foldcast_all_gather(const void* send, void* recv, size_t count,
                                                   foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream);
/* recv[r * count + i] = rank r's send[rank * count + i], i < count. */
FOLDCAST_API foldcast_result_t foldcast_all_to_all(const void* send, void* recv, size_t count,
                                                   foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream);
/* On the root: recv[r * count + i] = rank r's send[i], i < count. */
FOLDCAST_API foldcast_result_t foldcast_gather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                               int root, foldcast_comm_t comm, void* stream);
/* recv[i] = the root's send[rank * count + i], i < count. */
FOLDCAST_API foldcast_result_t foldcast_scatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                                int root, foldcast_comm_t comm, void* stream);
/* Returns when every rank has called it. */
FOLDCAST_API foldcast_result_t foldcast_barrier(foldcast_comm_t comm, void* stream);

/* From this rank to `peer`, and there from `peer`; matched in order per pair of ranks. A send may wait for its recv:
 * exchanges belong between foldcast_group_start and foldcast_group_end. FOLDCAST_MISMATCH on the receiver when count or
 * datatype differ. */
FOLDCAST_API foldcast_result_t foldcast_send(const void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                             foldcast_comm_t comm, void* stream);
FOLDCAST_API foldcast_result_t foldcast_recv(void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                             foldcast_comm_t comm, void* stream);

/* Variable counts: block r has counts[r] elements and starts at element displacements[r] of its buffer; NULL for
 * displacements: one after the other. Blocks of a receive buffer do not overlap. */
/* `send` holds the blocks one after the other; recv gets counts[rank] elements. `counts` is equal on all ranks. */
FOLDCAST_API foldcast_result_t foldcast_reduce_scatterv(const void* send, void* recv, const size_t* counts,
                                                        foldcast_datatype_t dtype, foldcast_op_t op,
                                                        foldcast_comm_t comm, void* stream);
/* `counts` is equal on all ranks; `send` has counts[rank] elements. */
FOLDCAST_API foldcast_result_t foldcast_all_gatherv(const void* send, void* recv, const size_t* counts,
                                                    const size_t* displacements, foldcast_datatype_t dtype,
                                                    foldcast_comm_t comm, void* stream);
/* send_counts[r] here equals recv_counts[rank] on rank r. */
FOLDCAST_API foldcast_result_t foldcast_all_to_allv(const void* send, const size_t* send_counts,
                                                    const size_t* send_displacements, void* recv,
                                                    const size_t* recv_counts, const size_t* recv_displacements,
                                                    foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream);
/* `counts` and `displacements` are looked at on the root only; `count` there is counts[rank]. */
FOLDCAST_API foldcast_result_t foldcast_gatherv(const void* send, size_t count, void* recv, const size_t* counts,
                                                const size_t* displacements, foldcast_datatype_t dtype, int root,
                                                foldcast_comm_t comm, void* stream);
FOLDCAST_API foldcast_result_t foldcast_scatterv(const void* send, const size_t* counts, const size_t* displacements,
                                                 void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                                 foldcast_comm_t comm, void* stream);

FOLDCAST_API foldcast_result_t foldcast_iall_reduce(const void* send, void* recv, size_t count,
                                                    foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm,
                                                    void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_ireduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                                foldcast_op_t op, int root, foldcast_comm_t comm, void* stream,
                                                foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_ibroadcast(const void* send, void* recv, size_t count,
                                                   foldcast_datatype_t dtype, int root, foldcast_comm_t comm,
                                                   void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_ireduce_scatter(const void* send, void* recv, size_t count,
                                                        foldcast_datatype_t dtype, foldcast_op_t op,
                                                        foldcast_comm_t comm, void* stream,
                                                        foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_iall_gather(const void* send, void* recv, size_t count,
                                                    foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream,
                                                    foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_iall_to_all(const void* send, void* recv, size_t count,
                                                    foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream,
                                                    foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_igather(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                                int root, foldcast_comm_t comm, void* stream,
                                                foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_iscatter(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                                 int root, foldcast_comm_t comm, void* stream,
                                                 foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_ibarrier(foldcast_comm_t comm, void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_isend(const void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                              foldcast_comm_t comm, void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_irecv(void* buffer, size_t count, foldcast_datatype_t dtype, int peer,
                                              foldcast_comm_t comm, void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_ireduce_scatterv(const void* send, void* recv, const size_t* counts,
                                                         foldcast_datatype_t dtype, foldcast_op_t op,
                                                         foldcast_comm_t comm, void* stream,
                                                         foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_iall_gatherv(const void* send, void* recv, const size_t* counts,
                                                     const size_t* displacements, foldcast_datatype_t dtype,
                                                     foldcast_comm_t comm, void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_iall_to_allv(const void* send, const size_t* send_counts,
                                                     const size_t* send_displacements, void* recv,
                                                     const size_t* recv_counts, const size_t* recv_displacements,
                                                     foldcast_datatype_t dtype, foldcast_comm_t comm, void* stream,
                                                     foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_igatherv(const void* send, size_t count, void* recv, const size_t* counts,
                                                 const size_t* displacements, foldcast_datatype_t dtype, int root,
                                                 foldcast_comm_t comm, void* stream, foldcast_request_t* request);
FOLDCAST_API foldcast_result_t foldcast_iscatterv(const void* send, const size_t* counts, const size_t* displacements,
                                                  void* recv, size_t count, foldcast_datatype_t dtype, int root,
                                                  foldcast_comm_t comm, void* stream, foldcast_request_t* request);

/* Calls of this thread between these two are only noted, and start together at the end (of the outermost pair, which
 * may be nested): blocking ones are over when it returns, requests of the others are valid after it. Small all_reduces
 * of one datatype and op on one communicator become one call. Arguments are checked when a call is noted; errors of
 * blocking ones are given by the end. All ranks group the same calls. */
FOLDCAST_API foldcast_result_t foldcast_group_start(void);
FOLDCAST_API foldcast_result_t foldcast_group_end(void);

/* *done = 1 and the request freed (*request = NULL) when it is complete; its result is the return value. */
FOLDCAST_API foldcast_result_t foldcast_request_test(foldcast_request_t* request, int* done);
/* Waits, frees the request, returns its result. A call in which nothing moves for FOLDCAST_TIMEOUT fails. */
FOLDCAST_API foldcast_result_t foldcast_request_wait(foldcast_request_t* request);

#ifdef __cplusplus
}
#endif

#endif /* FOLDCAST_H_ */
