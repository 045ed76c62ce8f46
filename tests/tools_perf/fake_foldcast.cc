#include "tests/tools_perf/fake_foldcast.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "kernels/reducer.h"

namespace foldcast::tools::testing {
namespace {

constexpr std::size_t kRoom = 2u << 20;  // of one rank's contribution

/// In shared memory.
struct Shared {
  FakeBehaviour behaviour;
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> round;
  std::byte* contributions;
};

Shared* shared = nullptr;  // set before the ranks are forked
int this_rank = 0;

std::byte* contribution(int rank) { return shared->contributions + static_cast<std::size_t>(rank) * kRoom; }

bool meet() {
  std::uint32_t round = shared->round.load();
  if (shared->arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(shared->behaviour.ranks)) {
    shared->arrived = 0;
    shared->round = round + 1;
    return true;
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(shared->behaviour.timeout_s);
  while (shared->round == round) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

}  // namespace
}  // namespace foldcast::tools::testing

using foldcast::tools::testing::contribution;
using foldcast::tools::testing::FakeBehaviour;
using foldcast::tools::testing::kRoom;
using foldcast::tools::testing::meet;
using foldcast::tools::testing::shared;
using foldcast::tools::testing::this_rank;

struct foldcast_comm {
  foldcast_path_t path = FOLDCAST_PATH_AUTO;
  std::string plan;
  std::string error;
  int calls = 0;
  foldcast_path_t runs_on() const {
    return shared->behaviour.offload && path != FOLDCAST_PATH_HOST ? FOLDCAST_PATH_OFFLOAD : FOLDCAST_PATH_HOST;
  }
};

namespace {

std::string last_error;

foldcast_result_t fail(foldcast_result_t code, std::string message) {
  last_error = std::move(message);
  return code;
}

void reduce_all(void* target, std::size_t count, foldcast_datatype_t type, foldcast_op_t op) {
  auto dtype = static_cast<foldcast::Datatype>(type);
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < shared->behaviour.ranks; ++rank) inputs.push_back(contribution(rank));
  auto* out = static_cast<std::byte*>(target);
  foldcast::kernels::reduce_n(foldcast::pairwise(static_cast<foldcast::ReduceOp>(op)), dtype, out, inputs, count);
  if (op == FOLDCAST_AVG) {
    foldcast::kernels::divide(dtype, out, static_cast<std::uint64_t>(shared->behaviour.ranks), count);
  }
}

void take_time(const foldcast_comm& comm, std::size_t bytes) {
  const FakeBehaviour& behaviour = shared->behaviour;
  double us = comm.runs_on() == FOLDCAST_PATH_HOST ? behaviour.host_us_per_byte * static_cast<double>(bytes)
                                                   : behaviour.offload_us;
  if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
}

}  // namespace

extern "C" {

const char* foldcast_version() { return "0.0.0-fake"; }
const char* foldcast_result_string(foldcast_result_t result) {
  return result == FOLDCAST_PEER_FAILED ? "peer failed" : result == FOLDCAST_UNSUPPORTED ? "unsupported" : "error";
}
const char* foldcast_last_error() { return last_error.c_str(); }

foldcast_result_t foldcast_comm_init(foldcast_comm_t* comm) {
  *comm = new foldcast_comm;
  return FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_destroy(foldcast_comm_t comm) {
  delete comm;
  return FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_rank(foldcast_comm_t, int* rank) { return *rank = this_rank, FOLDCAST_SUCCESS; }
foldcast_result_t foldcast_comm_size(foldcast_comm_t, int* size) {
  return *size = shared->behaviour.ranks, FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_local_rank(foldcast_comm_t, int* rank) {
  return *rank = this_rank % shared->behaviour.ranks_per_node, FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_node_count(foldcast_comm_t, int* nodes) {
  const FakeBehaviour& behaviour = shared->behaviour;
  return *nodes = (behaviour.ranks + behaviour.ranks_per_node - 1) / behaviour.ranks_per_node, FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_node(foldcast_comm_t, int* node) {
  return *node = this_rank / shared->behaviour.ranks_per_node, FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_set_path(foldcast_comm_t comm, foldcast_path_t path) {
  return comm->path = path, FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_comm_set_plan(foldcast_comm_t comm, const char* name) {
  return comm->plan = name, FOLDCAST_SUCCESS;
}

foldcast_result_t foldcast_all_reduce_plan(size_t count, foldcast_datatype_t, foldcast_op_t, foldcast_comm_t comm,
                                           foldcast_plan_info_t* info) {
  if (shared->behaviour.unsupported_at != 0 && count == shared->behaviour.unsupported_at) {
    return fail(FOLDCAST_UNSUPPORTED, "the fake does not reduce that many elements");
  }
  info->path = comm->runs_on();
  std::string name = !comm->plan.empty() ? comm->plan : info->path == FOLDCAST_PATH_OFFLOAD ? "tree" : "ring";
  std::snprintf(info->name, sizeof info->name, "%s", name.c_str());
  info->price_us = 1;
  return FOLDCAST_SUCCESS;
}

foldcast_result_t foldcast_all_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_op_t op, foldcast_comm_t comm, void*) {
  const FakeBehaviour& behaviour = shared->behaviour;
  std::size_t bytes = count * foldcast::size_of(static_cast<foldcast::Datatype>(dtype));
  if (bytes > kRoom) return fail(FOLDCAST_INVALID_ARGUMENT, "more than the fake has room for");
  if (++comm->calls == behaviour.kill_call && this_rank == behaviour.kill_rank) ::raise(SIGKILL);
  std::memcpy(contribution(this_rank), send == FOLDCAST_IN_PLACE ? recv : send, bytes);
  if (!meet()) return fail(FOLDCAST_PEER_FAILED, "a rank of the fake is gone");
  reduce_all(recv, count, dtype, op);
  take_time(*comm, bytes);
  if (this_rank == behaviour.flip_rank && comm->runs_on() == behaviour.flip_path && bytes > 0) {
    auto* out = static_cast<std::byte*>(recv);
    std::size_t at = behaviour.flip_last ? bytes - foldcast::size_of(static_cast<foldcast::Datatype>(dtype)) : 0;
    out[at] ^= std::byte{1};
  }
  return meet() ? FOLDCAST_SUCCESS : fail(FOLDCAST_PEER_FAILED, "a rank of the fake is gone");
}

foldcast_result_t foldcast_barrier(foldcast_comm_t, void*) {
  return meet() ? FOLDCAST_SUCCESS : fail(FOLDCAST_PEER_FAILED, "a rank of the fake is gone");
}

}  // extern "C"

namespace foldcast::tools::testing {

int run_ranks(const FakeBehaviour& behaviour, const std::function<int()>& body, int* others) {
  std::size_t room = sizeof(Shared) + static_cast<std::size_t>(behaviour.ranks) * kRoom;
  void* mapping = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return -1;
  shared = new (mapping) Shared{behaviour, 0, 0, static_cast<std::byte*>(mapping) + sizeof(Shared)};
  std::fflush(nullptr);  // else every rank would print what is still buffered
  std::vector<pid_t> pids;
  for (int rank = 0; rank < behaviour.ranks; ++rank) {
    pid_t pid = ::fork();
    if (pid == 0) {
      this_rank = rank;
      int code = body();
      std::fflush(nullptr);
      ::_exit(code);
    }
    pids.push_back(pid);
  }
  int first = -1;
  int failed = 0;
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    int status = 0;
    ::waitpid(pids[rank], &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (rank == 0) first = code;
    if (rank != 0 && code != 0) ++failed;
  }
  if (others != nullptr) *others = failed;
  ::munmap(mapping, room);
  return first;
}

}  // namespace foldcast::tools::testing
