// Everything of the fake library but the collective calls.
#include "tests/tools_perf/fake_foldcast.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "core/base/datatype.h"
#include "tests/tools_perf/fake_state.h"

namespace foldcast::tools::testing {

FakeShared* shared = nullptr;
int this_rank = 0;

namespace {
std::string last_error;
}  // namespace

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

foldcast_result_t fail(foldcast_result_t code, std::string message) {
  last_error = std::move(message);
  return code;
}

std::vector<FakePremul>& premuls() {
  static std::vector<FakePremul> list;
  return list;
}

int run_ranks(const FakeBehaviour& behaviour, const std::function<int()>& body, int* others) {
  std::size_t room = sizeof(FakeShared) + static_cast<std::size_t>(behaviour.ranks) * kRoom;
  void* mapping = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return -1;
  shared = new (mapping) FakeShared{behaviour, 0, 0, {}, static_cast<std::byte*>(mapping) + sizeof(FakeShared)};
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

using foldcast::tools::testing::fail;
using foldcast::tools::testing::FakeBehaviour;
using foldcast::tools::testing::FakePremul;
using foldcast::tools::testing::premuls;
using foldcast::tools::testing::shared;
using foldcast::tools::testing::this_rank;

foldcast_path_t foldcast_comm::runs_on() const {
  return shared->behaviour.offload && path != FOLDCAST_PATH_HOST ? FOLDCAST_PATH_OFFLOAD : FOLDCAST_PATH_HOST;
}

extern "C" {

const char* foldcast_version() { return "0.0.0-fake"; }
const char* foldcast_result_string(foldcast_result_t result) {
  return result == FOLDCAST_PEER_FAILED   ? "peer failed"
         : result == FOLDCAST_UNSUPPORTED ? "unsupported"
         : result == FOLDCAST_MISMATCH    ? "mismatch"
                                          : "error";
}
const char* foldcast_last_error() { return foldcast::tools::testing::last_error.c_str(); }

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
foldcast_result_t foldcast_comm_set_wire_format(foldcast_comm_t comm, foldcast_wire_format_t format) {
  return comm->wire = format, FOLDCAST_SUCCESS;
}

foldcast_result_t foldcast_plan(foldcast_comm_t comm, const foldcast_shape_t* shape, foldcast_plan_info_t* info) {
  if (shared->behaviour.unsupported_at != 0 && shape->count == shared->behaviour.unsupported_at) {
    return fail(FOLDCAST_UNSUPPORTED, "the fake does not reduce that many elements");
  }
  info->path = comm->runs_on();
  std::string name = !comm->plan.empty() ? comm->plan : info->path == FOLDCAST_PATH_OFFLOAD ? "tree" : "ring";
  std::snprintf(info->name, sizeof info->name, "%s", name.c_str());
  info->price_us = 1;
  return FOLDCAST_SUCCESS;
}

foldcast_result_t foldcast_op_create_premul_sum(const void* scalar, foldcast_datatype_t dtype, foldcast_op_t* op) {
  FakePremul& made = premuls().emplace_back(FakePremul{dtype, {}});
  std::memcpy(made.scalar, scalar, foldcast::size_of(static_cast<foldcast::Datatype>(dtype)));
  *op = static_cast<foldcast_op_t>(63 + premuls().size());
  return FOLDCAST_SUCCESS;
}
foldcast_result_t foldcast_op_destroy(foldcast_op_t) { return FOLDCAST_SUCCESS; }

}  // extern "C"
