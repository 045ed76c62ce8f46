#include "core/api/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/base/wire.h"
#include "core/select/calibrate.h"
#include "hierarchy/planner.h"
#include "hierarchy/shm/shm_node_group.h"
#include "offload/client/provider.h"

namespace foldcast::api {
namespace {

constexpr std::uint32_t kWorld = 1;
/// What 64-bit user space can address.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
constexpr std::uint32_t kTreeBit = 1u << 31;
constexpr std::chrono::milliseconds kJoinTimeout{5000};

/// One member's word on its join, as it travels: the granted caps, or the reason for none.
struct JoinReport {
  enum class Outcome : std::uint8_t { kRefused, kJoined, kIdle };  ///< idle: a member of no tree, has no objection
  Outcome outcome = Outcome::kRefused;
  GroupCaps caps;
  std::string text;

  std::string serialize() const {
    WireWriter writer;
    writer.put(static_cast<std::uint8_t>(outcome)).put(caps.dtypes).put(caps.ops).put(caps.fragment_bytes);
    writer.put(caps.slots).put(caps.depth).put(caps.exclusive).put(caps.deterministic).put_bytes(text);
    return writer.take();
  }
  static Result<JoinReport> parse(std::string_view bytes) {
    WireReader reader(bytes);
    JoinReport report;
    const auto outcome = reader.get<std::uint8_t>();
    report.outcome = static_cast<Outcome>(outcome);
    report.caps.dtypes = reader.get<std::uint32_t>();
    report.caps.ops = reader.get<std::uint32_t>();
    report.caps.fragment_bytes = reader.get<std::uint64_t>();
    report.caps.slots = reader.get<std::uint32_t>();
    report.caps.depth = reader.get<std::uint32_t>();
    report.caps.exclusive = reader.get<std::uint8_t>() != 0;
    report.caps.deterministic = reader.get<std::uint8_t>() != 0;
    report.text = reader.get_bytes();
    if (!reader.complete() || outcome > static_cast<std::uint8_t>(Outcome::kIdle)) {
      return internal_error("a malformed join report");
    }
    return report;
  }
};

}  // namespace

Status validate_shape(const CollectiveCall& call) {
  if (!is_valid(call.dtype)) {
    return invalid_argument(fmt::format("unknown datatype {}", static_cast<int>(call.dtype)));
  }
  if (!is_valid(call.op)) return invalid_argument(fmt::format("unknown op {}", static_cast<int>(call.op)));
  if (call.count > kMostBytes / size_of(call.dtype)) {
    return invalid_argument(
        fmt::format("a count of {} x {} does not fit an address space", call.count, to_string(call.dtype)));
  }
  return ok_status();
}

Status validate(const CollectiveCall& call) {
  FOLDCAST_RETURN_IF_ERROR(validate_shape(call));
  if (call.count == 0) return ok_status();
  if (call.recv == nullptr) return invalid_argument("the receive buffer is NULL and the count is not 0");
  if (call.send == nullptr) return invalid_argument("the send buffer is NULL and the count is not 0");
  const auto send = reinterpret_cast<std::uintptr_t>(call.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);
  const std::uint64_t bytes = call.count * size_of(call.dtype);
  if (send != recv && send < recv + bytes && recv < send + bytes) {
    return invalid_argument(fmt::format(
        "send and receive buffers overlap by {} bytes: pass the same pointer (in place) or separate buffers",
        std::min(send, recv) + bytes - std::max(send, recv)));
  }
  return ok_status();
}

Result<std::unique_ptr<WorldCommunicator>> WorldCommunicator::create(
    Config config, const bootstrap::LaunchInfo& launch, const transports::TransportFactory& make_transport) {
  FOLDCAST_ASSIGN(const auto policy, select::path_policy_from_string(config.path));
  FOLDCAST_ASSIGN(auto context, runtime::Context::create(std::move(config), launch, make_transport));
  std::unique_ptr<WorldCommunicator> world(new WorldCommunicator(std::move(context)));
  runtime::Context& c = *world->context_;
  auto& endpoints = world->endpoints_;
  endpoints.rank = c.rank();
  endpoints.communicator = kWorld;
  endpoints.transport = c.layout().nodes.size() > 1 ? &c.transport() : nullptr;
  endpoints.peers = c.peers();
  endpoints.names = c.names();
  for (const auto& group : hierarchy::groups_of(c.layout())) {
    endpoints.groups.push_back(nullptr);
    endpoints.group_names.push_back(group.name);
  }
  FOLDCAST_RETURN_IF_ERROR(world->join_node());
  FOLDCAST_ASSIGN(auto model, world->join_tree(policy, make_transport));
  world->selector_ = std::make_unique<select::Selector>(c.layout(), c.rank(), std::move(model));
  FOLDCAST_RETURN_IF_ERROR(world->calibrate());
  world->selector_->set_policy(policy);
  FOLDCAST_RETURN_IF_ERROR(world->selector_->force({c.config().plan, {c.config().fragment_bytes, c.config().depth}}));
  return world;
}

WorldCommunicator::~WorldCommunicator() {
  if (tree_) context_->remove_engine(*tree_);
  if (node_group_) context_->remove_engine(*node_group_);
}

Status WorldCommunicator::join_node() {
  const auto& layout = context_->layout();
  const int node = layout.node_of[context_->rank()];
  const auto& ranks = layout.nodes[node];
  if (ranks.size() == 1) return ok_status();
  hierarchy::ShmOptions options;
  options.name = fmt::format("{}-{:016x}-{}", context_->job_id(), context_->job_token(), node);
  options.rank = layout.local_rank_of[context_->rank()];
  options.size = static_cast<int>(ranks.size());
  options.timeout = context_->setup_time_left();
  FOLDCAST_ASSIGN(node_group_, hierarchy::make_shm_node_group(options));
  endpoints_.groups[node] = node_group_.get();
  return context_->add_engine(*node_group_);
}

Result<std::unique_ptr<offload::OffloadGroup>> WorldCommunicator::ask_tree(
    const transports::TransportFactory& make_transport) {
  const Config& config = context_->config();
  const auto& layout = context_->layout();
  FOLDCAST_ASSIGN(const auto switches, offload::SwitchTopology::load(config.topology));
  FOLDCAST_ASSIGN(const auto aggregators, offload::parse_aggregators(config.aggregators));
  FOLDCAST_ASSIGN(const auto tree, offload::build_tree(switches, aggregators, layout.hostnames));
  provider_ = offload::make_aggregator_provider(make_transport);
  const auto shard = static_cast<std::uint32_t>(layout.local_rank_of[context_->rank()]);
  offload::JoinRequest request;
  request.tree = &tree;
  request.group = kTreeBit | (kWorld << 16) | shard;
  request.job_token = context_->job_token();
  request.job = context_->job_id();
  request.member = layout.node_of[context_->rank()];
  // Whoever is refused at once waits for those that are not: their answer must come before the set-up ends.
  request.timeout = std::min(kJoinTimeout, context_->setup_time_left() / 2);
  request.fragment_timeout = config.timeout;
  if (!config.aggregator_key_file.empty()) {
    FOLDCAST_ASSIGN(request.key, read_key_file(config.aggregator_key_file));
  }
  return provider_->join(request);
}

Result<select::LinkModel> WorldCommunicator::join_tree(select::PathPolicy policy,
                                                       const transports::TransportFactory& make_transport) {
  select::LinkModel model;
  const auto& layout = context_->layout();
  const Config& config = context_->config();
  JoinReport mine;
  std::unique_ptr<offload::OffloadGroup> group;
  const auto shard = static_cast<std::size_t>(layout.local_rank_of[context_->rank()]);
  if (layout.nodes.size() == 1) {
    model.tree_refusal = "one node: nothing leaves it";
    return model;
  }
  const bool configured = !config.topology.empty() && !config.aggregators.empty();
  if (policy == select::PathPolicy::kHost) {
    mine.text = "the path policy at set-up was host";
  } else if (!configured) {
    mine.text = "no aggregators are configured: set FOLDCAST_TOPOLOGY and FOLDCAST_AGGREGATORS";
  } else if (shard >= layout.smallest_node()) {
    mine.outcome = JoinReport::Outcome::kIdle;
  } else if (auto asked = ask_tree(make_transport); asked.ok()) {
    group = std::move(asked).value();
    mine.outcome = JoinReport::Outcome::kJoined;
    mine.caps = group->caps();
    mine.text = group->describe();
  } else {
    mine.text = asked.status().message();
  }

  // All or none: one member without the tree and everybody takes the host path.
  FOLDCAST_ASSIGN(const auto reports, context_->gather("world/tree", mine.serialize()));
  bool first = true;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    FOLDCAST_ASSIGN(const auto report, JoinReport::parse(reports[rank]));
    if (report.outcome == JoinReport::Outcome::kIdle) continue;
    if (report.outcome == JoinReport::Outcome::kRefused) {
      model.tree = false;
      model.tree_refusal = fmt::format("{}: {}", context_->names()[rank], report.text);
      const bool wanted = configured && policy != select::PathPolicy::kHost;
      if (context_->rank() == 0 && wanted) log().warn("no offload: {}", model.tree_refusal);
      return model;  // `group` leaves the tree here
    }
    model.tree_caps = first ? report.caps : intersect(model.tree_caps, report.caps);
    if (first) model.tree_description = report.text;
    first = false;
  }
  model.tree = !first;
  if (group) {
    tree_ = std::move(group);
    const std::size_t number = layout.nodes.size() + shard;
    endpoints_.groups[number] = tree_.get();
    endpoints_.group_names[number] = fmt::format("tree {} ({})", shard, tree_->describe());
    FOLDCAST_RETURN_IF_ERROR(context_->add_engine(*tree_));
  }
  return model;
}

Result<double> WorldCommunicator::timed_call(const hierarchy::Composition& composition, std::uint64_t bytes) {
  FOLDCAST_ASSIGN(const select::Plan* plan, selector_->plan_of(composition, bytes));
  std::vector<std::byte> buffer(bytes);
  runtime::Binding binding;
  binding.input = binding.output = buffer.data();
  binding.signature = {Collective::kAllReduce, Datatype::kUint8, ReduceOp::kMax, 0, 0, bytes};
  binding.sequence = ++sequence_;
  const auto begin = std::chrono::steady_clock::now();
  FOLDCAST_ASSIGN(runtime::Execution * execution, context_->executor().launch(endpoints_, *plan, binding));
  FOLDCAST_RETURN_IF_ERROR(finish(execution));
  double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();

  FOLDCAST_ASSIGN(const auto all, context_->gather(fmt::format("world/timed/{}", ++timed_calls_),
                                                   std::string_view(reinterpret_cast<const char*>(&us), sizeof(us))));
  for (const auto& bytes_of_rank : all) {
    double other = 0;
    if (bytes_of_rank.size() != sizeof(other)) return internal_error("malformed time");
    std::memcpy(&other, bytes_of_rank.data(), sizeof(other));
    us = std::max(us, other);
  }
  return us;
}

Status WorldCommunicator::calibrate() {
  select::KnownLinks known;
  known.latency_us = context_->config().link_latency_us;
  known.bytes_per_us = context_->config().link_gbps * 1000 / 8;
  FOLDCAST_ASSIGN(auto model, select::calibrate(context_->layout(), selector_->model(), known,
                                                [this](const hierarchy::Composition& composition, std::uint64_t bytes) {
                                                  return timed_call(composition, bytes);
                                                }));
  selector_->set_model(std::move(model));
  return ok_status();
}

Result<runtime::Execution*> WorldCommunicator::start(const CollectiveCall& call) {
  FOLDCAST_RETURN_IF_ERROR(validate(call));
  FOLDCAST_ASSIGN(const auto selection, selector_->select_for_call(call.count, call.dtype, call.op));
  runtime::Binding binding;
  binding.input = static_cast<const std::byte*>(call.send);
  binding.output = static_cast<std::byte*>(call.recv);
  binding.signature = {call.kind, call.dtype, call.op, WireFormat::kExact, 0, call.count};
  binding.sequence = sequence_ + 1;
  FOLDCAST_ASSIGN(runtime::Execution * execution, context_->executor().launch(endpoints_, *selection.plan, binding));
  ++sequence_;  // a refused call has no number: the others do not know of it
  return execution;
}

Status WorldCommunicator::finish(runtime::Execution* execution) {
  Status status = context_->progress().wait(*execution);
  context_->executor().release(execution);
  return status;
}

bool WorldCommunicator::test(runtime::Execution* execution) {
  if (!execution->finished()) context_->progress().poll(*execution);
  return execution->finished();
}

}  // namespace foldcast::api
