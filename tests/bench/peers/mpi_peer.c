/* The other side of the comparison: one collective of an MPI library, timed as `foldcast perf` times its own.
 *
 * mpi_peer COLLECTIVE FIRST LAST FACTOR SECONDS FILE
 *
 * Sizes from FIRST to LAST bytes, each FACTOR times the last; at most 10000 calls or SECONDS each, but not fewer than
 * five. A size is the larger buffer's, of float32, rounded as nccl-tests do. The time of a call is the average over the
 * ranks. Rank 0 writes a JSON list of records to FILE. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_CALLS = 5, MOST_CALLS = 10000, WARM_UP = 5 };

struct peer {
  const char *collective;
  int rank, ranks;
  char *send, *recv;
};

static int has_blocks(const char *collective) {
  static const char *const names[] = {"reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (strcmp(collective, names[i]) == 0) return 1;
  }
  return 0;
}

/* Elements of a call's count argument for a size in bytes. */
static int count_for(const struct peer *peer, long bytes) {
  long count = bytes / (long)sizeof(float);
  if (!has_blocks(peer->collective)) return (int)count;
  count /= peer->ranks;
  int is_rooted = strcmp(peer->collective, "gather") == 0 || strcmp(peer->collective, "scatter") == 0;
  return (int)(is_rooted ? count : count - count % 4);
}

static int call(const struct peer *peer, int count) {
  const char *name = peer->collective;
  const MPI_Datatype type = MPI_FLOAT;
  const MPI_Comm all = MPI_COMM_WORLD;
  int next = (peer->rank + 1) % peer->ranks;
  int previous = (peer->rank + peer->ranks - 1) % peer->ranks;
  if (strcmp(name, "all_reduce") == 0) return MPI_Allreduce(peer->send, peer->recv, count, type, MPI_SUM, all);
  if (strcmp(name, "reduce") == 0) return MPI_Reduce(peer->send, peer->recv, count, type, MPI_SUM, 0, all);
  if (strcmp(name, "broadcast") == 0) return MPI_Bcast(peer->recv, count, type, 0, all);
  if (strcmp(name, "reduce_scatter") == 0)
    return MPI_Reduce_scatter_block(peer->send, peer->recv, count, type, MPI_SUM, all);
  if (strcmp(name, "all_gather") == 0) return MPI_Allgather(peer->send, count, type, peer->recv, count, type, all);
  if (strcmp(name, "all_to_all") == 0) return MPI_Alltoall(peer->send, count, type, peer->recv, count, type, all);
  if (strcmp(name, "gather") == 0) return MPI_Gather(peer->send, count, type, peer->recv, count, type, 0, all);
  if (strcmp(name, "scatter") == 0) return MPI_Scatter(peer->send, count, type, peer->recv, count, type, 0, all);
  if (strcmp(name, "send_recv") == 0)
    return MPI_Sendrecv(peer->send, count, type, next, 0, peer->recv, count, type, previous, 0, all, MPI_STATUS_IGNORE);
  if (strcmp(name, "barrier") == 0) return MPI_Barrier(all);
  if (peer->rank == 0) fprintf(stderr, "mpi_peer: %s is no collective that is compared\n", name);
  return MPI_Abort(all, 2);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Times `calls` calls, this rank's times in microseconds to `times`. */
static void run(const struct peer *peer, int count, int calls, double *times) {
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < calls; ++i) {
    double start = MPI_Wtime();
    call(peer, count);
    times[i] = (MPI_Wtime() - start) * 1e6;
  }
}

static double measure(const struct peer *peer, int count, double seconds, double *least) {
  static double times[MOST_CALLS];
  static double average[MOST_CALLS];
  for (int i = 0; i < WARM_UP; ++i) call(peer, count);
  double start = MPI_Wtime();
  run(peer, count, LEAST_CALLS, times);
  double spent = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &spent, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  double fit = spent > 0 ? (seconds - spent) / (spent / LEAST_CALLS) : MOST_CALLS;
  int more = fit < 0 ? 0 : fit > MOST_CALLS - LEAST_CALLS ? MOST_CALLS - LEAST_CALLS : (int)fit;
  if (more > 0) run(peer, count, more, times + LEAST_CALLS);
  int calls = LEAST_CALLS + more;
  MPI_Allreduce(times, average, calls, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < calls; ++i) average[i] /= peer->ranks;
  qsort(average, (size_t)calls, sizeof average[0], by_value);
  *least = average[0];
  return (average[(calls - 1) / 2] + average[calls / 2]) / 2;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct peer peer = {.collective = argc > 1 ? argv[1] : ""};
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
  if (argc != 7) {
    if (peer.rank == 0) fprintf(stderr, "usage: mpi_peer COLLECTIVE FIRST LAST FACTOR SECONDS FILE\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  long first = atol(argv[2]);
  long last = atol(argv[3]);
  long factor = atol(argv[4]);
  double seconds = atof(argv[5]);
  size_t room = (size_t)last + 64;
  peer.send = calloc(room, 1);
  peer.recv = calloc(room, 1);
  FILE *file = peer.rank == 0 ? fopen(argv[6], "w") : NULL;
  if (peer.send == NULL || peer.recv == NULL || first < 1 || factor < 2 || (peer.rank == 0 && file == NULL)) {
    fprintf(stderr, "mpi_peer: no memory, a bad size, or %s cannot be written\n", argv[6]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memset(peer.send, 0, room); /* the pages are there before a clock runs */
  memset(peer.recv, 0, room);
  int is_barrier = strcmp(peer.collective, "barrier") == 0;
  const char *comma = "[";
  for (long bytes = first; bytes <= last; bytes *= factor) {
    int count = is_barrier ? 0 : count_for(&peer, bytes);
    long size = (long)count * (long)sizeof(float) * (has_blocks(peer.collective) ? peer.ranks : 1);
    double least = 0;
    double median = measure(&peer, count, seconds, &least);
    if (file != NULL) {
      fprintf(file, "%s\n  {\"collective\": \"%s\", \"bytes\": %ld, \"nranks\": %d, \"time_us\": {\"min\": %.3f, \"median\": %.3f}}",
              comma, peer.collective, size, peer.ranks, least, median);
    }
    comma = ",";
    if (is_barrier) break;
  }
  if (file != NULL) {
    fprintf(file, "\n]\n");
    fclose(file);
  }
  MPI_Finalize();
  return 0;
}
