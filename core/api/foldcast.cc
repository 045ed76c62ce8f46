#include "core/api/foldcast.h"

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "core/api/communicator.h"
#include "core/base/log.h"
#include "core/schedule/print.h"
#include "transports/ucx/ucx.h"

using foldcast::Status;

struct foldcast_comm {
  std::unique_ptr<foldcast::api::WorldCommunicator> world;
  std::string text;  ///< what the last question for one was answered with
};

struct foldcast_request {
  foldcast::api::WorldCommunicator* world = nullptr;
  foldcast::runtime::Execution* execution = nullptr;
  std::uint8_t barrier_byte = 0;  ///< a barrier is an all-reduce of this
};

namespace {

std::string& last_error() {
  thread_local std::string message;
  return message;
}

foldcast_result_t report(const Status& status) {
  if (status.ok()) return FOLDCAST_SUCCESS;
  last_error() = status.message();
  return static_cast<foldcast_result_t>(status.code());
}

/// The C ABI's border: what libraries below may throw ends here.
template <typename Call>
foldcast_result_t guarded(Call&& call) {
  try {
    return report(call());
  } catch (const std::bad_alloc&) {
    return report(foldcast::resource_exhausted("out of memory"));
  } catch (const std::exception& error) {
    return report(foldcast::internal_error(error.what()));
  }
}

Status need(const void* pointer, const char* what) {
  if (pointer != nullptr) return foldcast::ok_status();
  return foldcast::invalid_argument(std::string(what) + " is NULL");
}

Status get(foldcast_comm_t comm, int* target, int value(foldcast_comm_t)) {
  FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
  FOLDCAST_RETURN_IF_ERROR(need(target, "the result pointer"));
  *target = value(comm);
  return foldcast::ok_status();
}

foldcast::transports::TransportFactory transport_factory() {
  return [](std::uint64_t token) {
    foldcast::transports::UcxOptions options;
    options.token = token;
    return foldcast::transports::make_ucx(options);
  };
}

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Status init(foldcast_comm_t* comm) {
  FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator pointer"));
  *comm = nullptr;
  FOLDCAST_ASSIGN(auto config, foldcast::Config::from_environment());
  if (config.transport != "ucx") {
    return foldcast::invalid_argument("FOLDCAST_TRANSPORT is \"" + config.transport + "\": this build has ucx");
  }
  FOLDCAST_ASSIGN(const auto launch, foldcast::bootstrap::resolve_launch(environment, config.setup_timeout));
  if (launch.rank == 0) {
    for (const auto& warning : config.warnings()) foldcast::log().warn("{}", warning);
  }
  FOLDCAST_ASSIGN(auto world, foldcast::api::WorldCommunicator::create(std::move(config), launch, transport_factory()));
  *comm = new foldcast_comm{std::move(world), {}};
  return foldcast::ok_status();
}

Status start(const foldcast::api::CollectiveCall& call, foldcast_comm_t comm, void* stream,
             foldcast_request_t* request) {
  FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
  FOLDCAST_RETURN_IF_ERROR(need(request, "the request pointer"));
  *request = nullptr;
  if (stream != nullptr) {
    return foldcast::unsupported("a stream was given, but this build reduces host memory only: pass NULL");
  }
  auto made = std::make_unique<foldcast_request>();
  foldcast::api::CollectiveCall checked = call;
  if (call.kind == foldcast::Collective::kBarrier) checked.send = checked.recv = &made->barrier_byte;
  if (call.send == FOLDCAST_IN_PLACE) checked.send = call.recv;
  FOLDCAST_ASSIGN(made->execution, comm->world->start(checked));
  made->world = comm->world.get();
  *request = made.release();
  return foldcast::ok_status();
}

Status wait(foldcast_request_t* request) {
  FOLDCAST_RETURN_IF_ERROR(need(request, "the request pointer"));
  if (*request == nullptr) return foldcast::ok_status();
  std::unique_ptr<foldcast_request> owned(*request);
  *request = nullptr;
  return owned->world->finish(owned->execution);
}

/// Values that no enumerator has must not become one in the narrower enumerations.
template <typename Enum>
Enum narrow(int value) {
  return static_cast<Enum>(value < 0 || value > 255 ? 255 : value);
}

foldcast::api::CollectiveCall all_reduce_call(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                              foldcast_op_t op) {
  foldcast::api::CollectiveCall call;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.dtype = narrow<foldcast::Datatype>(dtype);
  call.op = narrow<foldcast::ReduceOp>(op);
  return call;
}

foldcast::api::CollectiveCall barrier_call() {
  foldcast::api::CollectiveCall call;
  call.kind = foldcast::Collective::kBarrier;
  call.count = 1;
  call.op = foldcast::ReduceOp::kMax;
  return call;
}

/// For questions about plans.
Status check_question(foldcast_comm_t comm, const foldcast::api::CollectiveCall& call) {
  FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
  return foldcast::api::validate_shape(call);
}

}  // namespace

extern "C" {

const char* foldcast_version(void) { return FOLDCAST_VERSION_STRING; }

const char* foldcast_result_string(foldcast_result_t result) {
  return foldcast::to_string(narrow<foldcast::Code>(result)).data();
}

const char* foldcast_datatype_string(foldcast_datatype_t dtype) {
  return foldcast::to_string(narrow<foldcast::Datatype>(dtype)).data();
}

const char* foldcast_op_string(foldcast_op_t op) { return foldcast::to_string(narrow<foldcast::ReduceOp>(op)).data(); }

size_t foldcast_datatype_size(foldcast_datatype_t dtype) {
  const auto checked = narrow<foldcast::Datatype>(dtype);
  return foldcast::is_valid(checked) ? foldcast::size_of(checked) : 0;
}

const char* foldcast_last_error(void) { return last_error().c_str(); }

foldcast_result_t foldcast_comm_init(foldcast_comm_t* comm) {
  return guarded([&] { return init(comm); });
}

foldcast_result_t foldcast_comm_destroy(foldcast_comm_t comm) {
  return guarded([&] {
    delete comm;
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_comm_rank(foldcast_comm_t comm, int* rank) {
  return guarded([&] { return get(comm, rank, [](foldcast_comm_t c) { return c->world->context().rank(); }); });
}

foldcast_result_t foldcast_comm_size(foldcast_comm_t comm, int* size) {
  return guarded([&] { return get(comm, size, [](foldcast_comm_t c) { return c->world->context().size(); }); });
}

foldcast_result_t foldcast_comm_local_rank(foldcast_comm_t comm, int* local_rank) {
  return guarded([&] {
    return get(comm, local_rank, [](foldcast_comm_t c) {
      return c->world->context().layout().local_rank_of[c->world->context().rank()];
    });
  });
}

foldcast_result_t foldcast_comm_node_count(foldcast_comm_t comm, int* nodes) {
  return guarded([&] {
    return get(comm, nodes,
               [](foldcast_comm_t c) { return static_cast<int>(c->world->context().layout().nodes.size()); });
  });
}

foldcast_result_t foldcast_comm_node(foldcast_comm_t comm, int* node) {
  return guarded([&] {
    return get(comm, node,
               [](foldcast_comm_t c) { return c->world->context().layout().node_of[c->world->context().rank()]; });
  });
}

foldcast_result_t foldcast_comm_set_path(foldcast_comm_t comm, foldcast_path_t path) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    switch (path) {
      case FOLDCAST_PATH_AUTO:
        comm->world->selector().set_policy(foldcast::select::PathPolicy::kAuto);
        break;
      case FOLDCAST_PATH_OFFLOAD:
        comm->world->selector().set_policy(foldcast::select::PathPolicy::kOffload);
        break;
      case FOLDCAST_PATH_HOST:
        comm->world->selector().set_policy(foldcast::select::PathPolicy::kHost);
        break;
      default:
        return foldcast::invalid_argument("unknown path " + std::to_string(static_cast<int>(path)));
    }
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_comm_set_plan(foldcast_comm_t comm, const char* name) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    auto forced = comm->world->selector().forced();
    forced.plan = name == nullptr ? "" : name;
    return comm->world->selector().force(std::move(forced));
  });
}

foldcast_result_t foldcast_all_reduce_plan(size_t count, foldcast_datatype_t dtype, foldcast_op_t op,
                                           foldcast_comm_t comm, foldcast_plan_info_t* info) {
  return guarded([&]() -> Status {
    const auto call = all_reduce_call(nullptr, nullptr, count, dtype, op);
    FOLDCAST_RETURN_IF_ERROR(check_question(comm, call));
    FOLDCAST_RETURN_IF_ERROR(need(info, "the info pointer"));
    FOLDCAST_ASSIGN(const auto selection, comm->world->selector().select(count, call.dtype, call.op));
    const auto* plan = selection.plan;
    *info = {};
    info->path = plan->path == foldcast::select::Path::kOffload ? FOLDCAST_PATH_OFFLOAD : FOLDCAST_PATH_HOST;
    plan->name.copy(info->name, sizeof(info->name) - 1);
    info->price_us = selection.price_us;
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_all_reduce_explain(size_t count, foldcast_datatype_t dtype, foldcast_op_t op,
                                              foldcast_comm_t comm, const char** text) {
  return guarded([&]() -> Status {
    const auto call = all_reduce_call(nullptr, nullptr, count, dtype, op);
    FOLDCAST_RETURN_IF_ERROR(check_question(comm, call));
    FOLDCAST_RETURN_IF_ERROR(need(text, "the text pointer"));
    FOLDCAST_ASSIGN(comm->text, comm->world->selector().explain(count, call.dtype, call.op));
    *text = comm->text.c_str();
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_all_reduce_steps(size_t count, foldcast_datatype_t dtype, foldcast_op_t op,
                                            foldcast_comm_t comm, foldcast_steps_format_t format, const char** text) {
  return guarded([&]() -> Status {
    const auto call = all_reduce_call(nullptr, nullptr, count, dtype, op);
    FOLDCAST_RETURN_IF_ERROR(check_question(comm, call));
    FOLDCAST_RETURN_IF_ERROR(need(text, "the text pointer"));
    if (format != FOLDCAST_STEPS_TEXT && format != FOLDCAST_STEPS_GRAPHVIZ) {
      return foldcast::invalid_argument("unknown format " + std::to_string(static_cast<int>(format)));
    }
    FOLDCAST_ASSIGN(const auto program, comm->world->selector().program_for(count, call.dtype, call.op));
    comm->text = format == FOLDCAST_STEPS_TEXT ? foldcast::schedule::print_text(program)
                                               : foldcast::schedule::print_graphviz(program);
    *text = comm->text.c_str();
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_iall_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                       foldcast_op_t op, foldcast_comm_t comm, void* stream,
                                       foldcast_request_t* request) {
  return guarded([&] { return start(all_reduce_call(send, recv, count, dtype, op), comm, stream, request); });
}

foldcast_result_t foldcast_all_reduce(const void* send, void* recv, size_t count, foldcast_datatype_t dtype,
                                      foldcast_op_t op, foldcast_comm_t comm, void* stream) {
  return guarded([&]() -> Status {
    foldcast_request_t request = nullptr;
    FOLDCAST_RETURN_IF_ERROR(start(all_reduce_call(send, recv, count, dtype, op), comm, stream, &request));
    return wait(&request);
  });
}

foldcast_result_t foldcast_ibarrier(foldcast_comm_t comm, void* stream, foldcast_request_t* request) {
  return guarded([&] { return start(barrier_call(), comm, stream, request); });
}

foldcast_result_t foldcast_barrier(foldcast_comm_t comm, void* stream) {
  return guarded([&]() -> Status {
    foldcast_request_t request = nullptr;
    FOLDCAST_RETURN_IF_ERROR(start(barrier_call(), comm, stream, &request));
    return wait(&request);
  });
}

foldcast_result_t foldcast_request_test(foldcast_request_t* request, int* done) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(request, "the request pointer"));
    FOLDCAST_RETURN_IF_ERROR(need(done, "the result pointer"));
    *done = 1;
    if (*request == nullptr) return foldcast::ok_status();
    if (!(*request)->world->test((*request)->execution)) {
      *done = 0;
      return foldcast::ok_status();
    }
    return wait(request);
  });
}

foldcast_result_t foldcast_request_wait(foldcast_request_t* request) {
  return guarded([&] { return wait(request); });
}

}  // extern "C"
