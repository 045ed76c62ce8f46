#include "core/api/foldcast.h"

#include <cstring>
#include <memory>
#include <string>

#include "core/api/handles.h"
#include "core/api/link_measure.h"
#include "core/api/premul.h"
#include "core/api/world.h"
#include "core/base/log.h"
#include "core/schedule/print.h"
#include "kernels/user_op.h"
#include "transports/shm/shm.h"
#include "transports/ucx/ucx.h"

using foldcast::Status;
using foldcast::api::Communicator;
using foldcast::api::guarded;
using foldcast::api::narrow;
using foldcast::api::need;

namespace foldcast::api {
namespace {

std::string& last_error() {
  thread_local std::string message;
  return message;
}

}  // namespace

foldcast_result_t report(const Status& status) {
  if (status.ok()) return FOLDCAST_SUCCESS;
  last_error() = status.message();
  return static_cast<foldcast_result_t>(status.code());
}

}  // namespace foldcast::api

namespace {

Status get(foldcast_comm_t comm, int* target, int value(const Communicator&)) {
  FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
  FOLDCAST_RETURN_IF_ERROR(need(target, "the result pointer"));
  *target = value(*comm->communicator);
  return foldcast::ok_status();
}

foldcast::transports::TransportFactory ucx(foldcast::transports::UcxOptions options) {
  return [options = std::move(options)](std::uint64_t token) mutable {
    options.token = token;
    return foldcast::transports::make_ucx(options);
  };
}

foldcast::transports::TransportFactories transports_for(const foldcast::Config& config) {
  foldcast::transports::TransportFactories made;
  foldcast::transports::UcxOptions options;
  for (const std::string& device : config.rails) {
    options.devices = device;
    made.rails.push_back(ucx(options));
  }
  options.devices = config.rails.empty() ? "" : config.rails.front();
  made.network = ucx(options);
  made.node = [cross_memory = config.cross_memory != "off"](std::uint64_t token) {
    foldcast::transports::ShmTransportOptions within;
    within.token = token;
    within.cross_memory = cross_memory;
    return foldcast::transports::make_shm(within);
  };
  return made;
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
  const auto transports = transports_for(config);
  FOLDCAST_ASSIGN(auto world, foldcast::api::create_world(std::move(config), launch, transports));
  *comm = new foldcast_comm{.communicator = std::move(world)};
  return foldcast::ok_status();
}

/// A function of the application behind the kernels' face.
struct UserFunction {
  foldcast_op_function_t function;
  void* context;
};

void call_user_function(const void* left, void* right, std::size_t count, foldcast::Datatype dtype, void* context) {
  const auto& user = *static_cast<const UserFunction*>(context);
  user.function(left, right, count, static_cast<foldcast_datatype_t>(dtype), user.context);
}

/// Hands a new communicator, or none, to the caller.
Status hand_over(foldcast::Result<std::unique_ptr<Communicator>> made, foldcast_comm_t* target) {
  FOLDCAST_RETURN_IF_ERROR(made.status());
  if (*made) *target = new foldcast_comm{.communicator = *std::move(made)};
  return foldcast::ok_status();
}

/// For calls that make a communicator.
Status check_parent(foldcast_comm_t comm, foldcast_comm_t* made) {
  FOLDCAST_RETURN_IF_ERROR(need(made, "the communicator pointer"));
  *made = nullptr;
  return need(comm, "the communicator");
}

/// For questions about plans.
foldcast::Result<foldcast::select::CallShape> shape_of(foldcast_comm_t comm, const foldcast_shape_t* shape) {
  FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
  FOLDCAST_RETURN_IF_ERROR(need(shape, "the shape"));
  foldcast::api::CollectiveCall call;
  call.kind = narrow<foldcast::Collective>(shape->collective);
  call.count = shape->count;
  call.dtype = narrow<foldcast::Datatype>(shape->dtype);
  call.op = narrow<foldcast::ReduceOp>(shape->op);
  call.root = shape->root;
  if (call.kind == foldcast::Collective::kNone || static_cast<std::size_t>(call.kind) >= foldcast::kCollectiveCount) {
    return foldcast::invalid_argument("unknown collective " + std::to_string(static_cast<int>(shape->collective)));
  }
  FOLDCAST_RETURN_IF_ERROR(foldcast::api::validate_shape(call));
  return comm->communicator->shape_of(call);
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

const char* foldcast_collective_string(foldcast_collective_t kind) {
  return foldcast::to_string(narrow<foldcast::Collective>(kind)).data();
}

const char* foldcast_wire_format_string(foldcast_wire_format_t format) {
  return foldcast::to_string(narrow<foldcast::WireFormat>(format)).data();
}

size_t foldcast_datatype_size(foldcast_datatype_t dtype) {
  const auto checked = narrow<foldcast::Datatype>(dtype);
  return foldcast::is_valid(checked) ? foldcast::size_of(checked) : 0;
}

const char* foldcast_last_error(void) { return foldcast::api::last_error().c_str(); }

foldcast_result_t foldcast_comm_init(foldcast_comm_t* comm) {
  return guarded([&] { return init(comm); });
}

foldcast_result_t foldcast_comm_destroy(foldcast_comm_t comm) {
  return guarded([&] {
    delete comm;
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_comm_split(foldcast_comm_t comm, int colour, int key, foldcast_comm_t* made) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(check_parent(comm, made));
    if (colour < 0 && colour != FOLDCAST_UNDEFINED) {
      return foldcast::invalid_argument("a colour is 0 or more, or FOLDCAST_UNDEFINED");
    }
    return hand_over(comm->communicator->split(colour, key), made);
  });
}

foldcast_result_t foldcast_comm_dup(foldcast_comm_t comm, foldcast_comm_t* made) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(check_parent(comm, made));
    return hand_over(comm->communicator->split(0, 0), made);
  });
}

foldcast_result_t foldcast_comm_shrink(foldcast_comm_t comm, foldcast_comm_t* made) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(check_parent(comm, made));
    return hand_over(comm->communicator->shrink(), made);
  });
}

foldcast_result_t foldcast_comm_abort(foldcast_comm_t comm) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    comm->communicator->abort();
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_comm_rank(foldcast_comm_t comm, int* rank) {
  return guarded([&] { return get(comm, rank, [](const Communicator& c) { return c.rank(); }); });
}

foldcast_result_t foldcast_comm_size(foldcast_comm_t comm, int* size) {
  return guarded([&] { return get(comm, size, [](const Communicator& c) { return c.size(); }); });
}

foldcast_result_t foldcast_comm_local_rank(foldcast_comm_t comm, int* local_rank) {
  return guarded(
      [&] { return get(comm, local_rank, [](const Communicator& c) { return c.layout().local_rank_of[c.rank()]; }); });
}

foldcast_result_t foldcast_comm_node_count(foldcast_comm_t comm, int* nodes) {
  return guarded([&] {
    return get(comm, nodes, [](const Communicator& c) { return static_cast<int>(c.layout().nodes.size()); });
  });
}

foldcast_result_t foldcast_comm_node(foldcast_comm_t comm, int* node) {
  return guarded([&] { return get(comm, node, [](const Communicator& c) { return c.layout().node_of[c.rank()]; }); });
}

foldcast_result_t foldcast_comm_set_path(foldcast_comm_t comm, foldcast_path_t path) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    if (path < FOLDCAST_PATH_AUTO || path > FOLDCAST_PATH_HOST) {
      return foldcast::invalid_argument("unknown path " + std::to_string(static_cast<int>(path)));
    }
    const auto lock = comm->communicator->lock();
    comm->communicator->selector().set_policy(static_cast<foldcast::select::PathPolicy>(path));
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_comm_set_plan(foldcast_comm_t comm, const char* name) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    const auto lock = comm->communicator->lock();
    auto forced = comm->communicator->selector().forced();
    forced.plan = name == nullptr ? "" : name;
    return comm->communicator->selector().force(std::move(forced));
  });
}

foldcast_result_t foldcast_comm_set_wire_format(foldcast_comm_t comm, foldcast_wire_format_t format) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    if (format < FOLDCAST_WIRE_EXACT || format > FOLDCAST_WIRE_FLOAT8) {
      return foldcast::invalid_argument("unknown wire format " + std::to_string(static_cast<int>(format)));
    }
    const auto lock = comm->communicator->lock();
    comm->communicator->set_wire_format(static_cast<foldcast::WireFormat>(format));
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_comm_calibrate(foldcast_comm_t comm) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(comm, "the communicator"));
    return foldcast::api::LinkMeasure(*comm->communicator).run();
  });
}

foldcast_result_t foldcast_plan(foldcast_comm_t comm, const foldcast_shape_t* shape, foldcast_plan_info_t* info) {
  return guarded([&]() -> Status {
    FOLDCAST_ASSIGN(const auto asked, shape_of(comm, shape));
    FOLDCAST_RETURN_IF_ERROR(need(info, "the info pointer"));
    const auto lock = comm->communicator->lock();
    FOLDCAST_ASSIGN(const auto selection, comm->communicator->selector().select(asked));
    *info = {};
    info->path = selection.plan->path == foldcast::select::Path::kOffload ? FOLDCAST_PATH_OFFLOAD : FOLDCAST_PATH_HOST;
    selection.plan->name.copy(info->name, sizeof(info->name) - 1);
    info->price_us = selection.price_us;
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_explain(foldcast_comm_t comm, const foldcast_shape_t* shape, const char** text) {
  return guarded([&]() -> Status {
    FOLDCAST_ASSIGN(const auto asked, shape_of(comm, shape));
    FOLDCAST_RETURN_IF_ERROR(need(text, "the text pointer"));
    const auto lock = comm->communicator->lock();
    FOLDCAST_ASSIGN(comm->text, comm->communicator->selector().explain(asked));
    if (const auto news = comm->communicator->tree_news(); !news.empty()) comm->text += news + "\n";
    *text = comm->text.c_str();
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_steps(foldcast_comm_t comm, const foldcast_shape_t* shape, foldcast_steps_format_t format,
                                 const char** text) {
  return guarded([&]() -> Status {
    FOLDCAST_ASSIGN(const auto asked, shape_of(comm, shape));
    FOLDCAST_RETURN_IF_ERROR(need(text, "the text pointer"));
    if (format != FOLDCAST_STEPS_TEXT && format != FOLDCAST_STEPS_GRAPHVIZ) {
      return foldcast::invalid_argument("unknown format " + std::to_string(static_cast<int>(format)));
    }
    const auto lock = comm->communicator->lock();
    FOLDCAST_ASSIGN(const auto program, comm->communicator->selector().program_for(asked));
    comm->text = format == FOLDCAST_STEPS_TEXT ? foldcast::schedule::print_text(program)
                                               : foldcast::schedule::print_graphviz(program);
    *text = comm->text.c_str();
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_op_create(foldcast_op_function_t function, int commutative, void* context,
                                     foldcast_op_t* op) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(op, "the op pointer"));
    FOLDCAST_RETURN_IF_ERROR(need(reinterpret_cast<const void*>(function), "the function"));
    auto* user = new UserFunction{function, context};
    const auto made = foldcast::kernels::register_user_op({&call_user_function, user, commutative != 0});
    if (!made.ok()) delete user;
    FOLDCAST_RETURN_IF_ERROR(made.status());
    *op = static_cast<foldcast_op_t>(*made);
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_op_create_premul_sum(const void* scalar, foldcast_datatype_t dtype, foldcast_op_t* op) {
  return guarded([&]() -> Status {
    FOLDCAST_RETURN_IF_ERROR(need(op, "the op pointer"));
    FOLDCAST_RETURN_IF_ERROR(need(scalar, "the scalar"));
    foldcast::api::Multiplier multiplier;
    multiplier.dtype = narrow<foldcast::Datatype>(dtype);
    if (!foldcast::is_defined(multiplier.dtype, foldcast::ReduceOp::kPremulSum)) {
      return foldcast::invalid_argument("sums of datatype " + std::to_string(static_cast<int>(dtype)) +
                                        " cannot be pre-multiplied");
    }
    std::memcpy(multiplier.value.data(), scalar, foldcast::size_of(multiplier.dtype));
    FOLDCAST_ASSIGN(const auto made, foldcast::api::add_multiplier(multiplier));
    *op = static_cast<foldcast_op_t>(made);
    return foldcast::ok_status();
  });
}

foldcast_result_t foldcast_op_destroy(foldcast_op_t op) {
  return guarded([&]() -> Status {
    const auto which = narrow<foldcast::ReduceOp>(op);
    if (foldcast::api::is_premul(which)) return foldcast::api::remove_multiplier(which);
    const auto* known = foldcast::is_user(which) ? foldcast::kernels::find_user_op(which) : nullptr;
    if (known == nullptr) {
      return foldcast::invalid_argument("op " + std::to_string(static_cast<int>(op)) + " was not created");
    }
    const std::unique_ptr<UserFunction> user(static_cast<UserFunction*>(known->context));
    return foldcast::kernels::unregister_user_op(which);
  });
}

}  // extern "C"
