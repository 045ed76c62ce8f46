/* Foldcast: collectives that are reduced inside the network where that wins, on the hosts where it does not.
 *
 * Conventions. Counts are elements, not bytes, and 64-bit. All ranks of a communicator make the same calls in the same
 * order with the same count, datatype and op; a difference is reported as FOLDCAST_MISMATCH: at once where messages of
 * the two calls meet, else when the time-out ends the wait. A function
 * returns FOLDCAST_SUCCESS or an error whose one-line explanation foldcast_last_error() gives to the calling thread.
 * After FOLDCAST_PEER_FAILED, FOLDCAST_TIMED_OUT or FOLDCAST_MISMATCH the communicator is broken: its later calls
 * return FOLDCAST_ABORTED, and it can only be destroyed. A communicator is used by one thread at a time. */
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
  FOLDCAST_FLOAT64 = 11
} foldcast_datatype_t;

/* Integers wrap. Float min and max: NaN wins, -0 < +0. avg divides the whole sum once; integers round toward zero. */
typedef enum foldcast_op FOLDCAST_ENUM_INT {
  FOLDCAST_SUM = 0,
  FOLDCAST_PROD = 1,
  FOLDCAST_MIN = 2,
  FOLDCAST_MAX = 3,
  FOLDCAST_AVG = 4
} foldcast_op_t;

/* Which way a communicator's calls may go. AUTO: whatever is priced cheaper. OFFLOAD: through the aggregation tree
 * where one was joined, else (counted and logged) on the hosts. HOST: never through a tree. */
typedef enum foldcast_path FOLDCAST_ENUM_INT {
  FOLDCAST_PATH_AUTO = 0,
  FOLDCAST_PATH_OFFLOAD = 1,
  FOLDCAST_PATH_HOST = 2
} foldcast_path_t;

typedef struct foldcast_comm* foldcast_comm_t;
typedef struct foldcast_request* foldcast_request_t;

/* As `send`: the input is in `recv` and is replaced by the result. Equal to passing recv as send. */
#define FOLDCAST_IN_PLACE ((const void*)1)

/* "0.1.0". */
FOLDCAST_API const char* foldcast_version(void);
FOLDCAST_API const char* foldcast_result_string(foldcast_result_t result);
FOLDCAST_API const char* foldcast_datatype_string(foldcast_datatype_t dtype);
FOLDCAST_API const char* foldcast_op_string(foldcast_op_t op);
/* Bytes of one element; 0 for an unknown datatype. */
FOLDCAST_API size_t foldcast_datatype_size(foldcast_datatype_t dtype);
/* What the calling thread's last failed call had to say; "" when none failed. Valid until its next call. */
FOLDCAST_API const char* foldcast_last_error(void);

/* Joins the job: rank, size and rendezvous come from the launch environment (FOLDCAST_RANK/SIZE/STORE, else torchrun,
 * Open MPI, PMI, Slurm, else a job of one). Collective over all ranks; returns when all are connected or the set-up
 * time-out (FOLDCAST_SETUP_TIMEOUT) has passed. */
FOLDCAST_API foldcast_result_t foldcast_comm_init(foldcast_comm_t* comm);
/* Local: no rank waits for another. Outstanding requests must have been waited for. NULL is allowed. */
FOLDCAST_API foldcast_result_t foldcast_comm_destroy(foldcast_comm_t comm);

FOLDCAST_API foldcast_result_t foldcast_comm_rank(foldcast_comm_t comm, int* rank);
FOLDCAST_API foldcast_result_t foldcast_comm_size(foldcast_comm_t comm, int* size);
FOLDCAST_API foldcast_result_t foldcast_comm_local_rank(foldcast_comm_t comm, int* local_rank);
/* How many nodes (hosts that share memory) the communicator spans, and the one this rank is on, from 0. */
FOLDCAST_API foldcast_result_t foldcast_comm_node_count(foldcast_comm_t comm, int* nodes);
FOLDCAST_API foldcast_result_t foldcast_comm_node(foldcast_comm_t comm, int* node);

/* Same value on all ranks, between calls. */
FOLDCAST_API foldcast_result_t foldcast_comm_set_path(foldcast_comm_t comm, foldcast_path_t path);
/* Forces the algorithm between nodes by name ("ring", "recursive_doubling", "halving_doubling", "double_tree", "tree");
 * NULL or "": chosen by price. Same value on all ranks. FOLDCAST_INVALID_ARGUMENT names the known ones. */
FOLDCAST_API foldcast_result_t foldcast_comm_set_plan(foldcast_comm_t comm, const char* name);

/* What an all_reduce of this shape would run as. */
typedef struct foldcast_plan_info {
  foldcast_path_t path; /* OFFLOAD or HOST */
  char name[64];        /* "ring", "node+tree", ... */
  double price_us;      /* what the estimate says it takes */
} foldcast_plan_info_t;
FOLDCAST_API foldcast_result_t foldcast_all_reduce_plan(size_t count, foldcast_datatype_t dtype, foldcast_op_t op,
                                                        foldcast_comm_t comm, foldcast_plan_info_t* info);
/* The choice, each rejected candidate with its reason and price, as text; the same on every rank. `text` stays valid
 * until the communicator's next question for a text. */
FOLDCAST_API foldcast_result_t foldcast_all_reduce_explain(size_t count, foldcast_datatype_t dtype, foldcast_op_t op,
                                                           foldcast_comm_t comm, const char** text);

/* The steps of all ranks of that plan, for one fragment: as lines, or as a Graphviz graph ("dot -Tsvg"). The same on
 * every rank; valid as the explanation is. */
typedef enum foldcast_steps_format FOLDCAST_ENUM_INT {
  FOLDCAST_STEPS_TEXT = 0,
  FOLDCAST_STEPS_GRAPHVIZ = 1
} foldcast_steps_format_t;
FOLDCAST_API foldcast_result_t foldcast_all_reduce_steps(size_t count, foldcast_datatype_t dtype, foldcast_op_t op,
                                                         foldcast_comm_t comm, foldcast_steps_format_t format,
                                                         const char** text);

/* recv[i] = op over all ranks of send[i], i < count. `send` may be `recv` or FOLDCAST_IN_PLACE; otherwise the two do
 * not overlap. Zero counts succeed (buffers may then be NULL). `stream` is reserved and must be NULL: buffers are host
 * memory. */
FOLDCAST_API foldcast_result_t foldcast_all_reduce(const void* send, void* recv, size_t count,
                                                   foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm,
                                                   void* stream);
/* The same, non-blocking: buffers belong to the call until the request has been tested complete or waited for. Calls
 * progress inside foldcast_* functions on this communicator. */
FOLDCAST_API foldcast_result_t foldcast_iall_reduce(const void* send, void* recv, size_t count,
                                                    foldcast_datatype_t dtype, foldcast_op_t op, foldcast_comm_t comm,
                                                    void* stream, foldcast_request_t* request);
/* Returns when every rank has called it. */
FOLDCAST_API foldcast_result_t foldcast_barrier(foldcast_comm_t comm, void* stream);
FOLDCAST_API foldcast_result_t foldcast_ibarrier(foldcast_comm_t comm, void* stream, foldcast_request_t* request);

/* *done = 1 and the request freed (*request = NULL) when it is complete; its result is the return value. */
FOLDCAST_API foldcast_result_t foldcast_request_test(foldcast_request_t* request, int* done);
/* Waits, frees the request, returns its result. A call in which nothing moves for FOLDCAST_TIMEOUT fails. */
FOLDCAST_API foldcast_result_t foldcast_request_wait(foldcast_request_t* request);

#ifdef __cplusplus
}
#endif

#endif /* FOLDCAST_H_ */
