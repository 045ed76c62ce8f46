#include "core/api/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/api/link_measure.h"
#include "core/base/log.h"
#include "core/base/wire.h"
#include "core/runtime/recovery.h"
#include "hierarchy/planner.h"
#include "offload/client/provider.h"

namespace foldcast::api {
namespace {

constexpr std::uint32_t kWorld = 1;
constexpr std::uint32_t kTreeBit = 1u << 31;
constexpr std::uint32_t kMostAttempts = 1u << 14;
constexpr std::chrono::milliseconds kJoinTimeout{5000};
/// Beside calls that go on meanwhile, and at most what the end waits for.
constexpr std::chrono::milliseconds kRejoinTimeout{2500};

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

/// Makes the job's first communicator, step by step.
class WorldBuilder {
 public:
  static Result<std::unique_ptr<Communicator>> build(Config config, const bootstrap::LaunchInfo& launch,
                                                     const transports::TransportFactories& transports);

 private:
  WorldBuilder(Communicator& world, const transports::TransportFactories& transports)
      : world_(world), context_(world.context()), layout_(world.layout()), transports_(transports) {}
  /// What selection needs to know of the tree; joined by all or none.
  Result<select::LinkModel> join_tree(select::PathPolicy policy);
  /// How this rank joins its tree: `attempt` 0 now, later ones on another thread.
  using Joiner = std::function<Result<std::unique_ptr<offload::OffloadGroup>>(std::uint32_t attempt)>;
  Result<Joiner> tree_joiner();
  Result<std::unique_ptr<offload::OffloadGroup>> ask_tree(Joiner& joiner);
  std::uint32_t group_number() const;
  Status adopt_tree(std::unique_ptr<offload::OffloadGroup> tree, Joiner joiner, const select::LinkModel& model);

  Communicator& world_;
  runtime::Context& context_;
  const hierarchy::Layout& layout_;
  const transports::TransportFactories& transports_;
};

Result<std::unique_ptr<Communicator>> create_world(Config config, const bootstrap::LaunchInfo& launch,
                                                   const transports::TransportFactories& transports) {
  return WorldBuilder::build(std::move(config), launch, transports);
}

Result<std::unique_ptr<Communicator>> WorldBuilder::build(Config config, const bootstrap::LaunchInfo& launch,
                                                          const transports::TransportFactories& transports) {
  FOLDCAST_ASSIGN(const auto policy, select::path_policy_from_string(config.path));
  FOLDCAST_ASSIGN(auto context, runtime::Context::create(std::move(config), launch, transports));
  std::vector<std::int32_t> members(context->layout().size());
  std::iota(members.begin(), members.end(), 0);
  FOLDCAST_ASSIGN(auto world, Communicator::create(std::move(context), members, kWorld, nullptr));
  WorldBuilder builder(*world, transports);
  FOLDCAST_ASSIGN(auto model, builder.join_tree(policy));
  world->selector_->set_model(std::move(model));
  FOLDCAST_RETURN_IF_ERROR(LinkMeasure(*world).load_or_run());
  world->selector_->set_policy(policy);
  const Config& settings = world->context().config();
  world->wire_ = wire_format_from_string(settings.wire_format).value_or(WireFormat::kExact);
  FOLDCAST_RETURN_IF_ERROR(world->selector_->force({settings.plan, {settings.fragment_bytes, settings.depth}}));
  return world;
}

Result<WorldBuilder::Joiner> WorldBuilder::tree_joiner() {
  const Config& config = context_.config();
  FOLDCAST_ASSIGN(const auto switches, offload::SwitchTopology::load(config.topology));
  FOLDCAST_ASSIGN(const auto aggregators, offload::parse_aggregators(config.aggregators));
  FOLDCAST_ASSIGN(auto tree, offload::build_tree(switches, aggregators, layout_.hostnames));
  offload::JoinRequest request;
  request.group = group_number();
  request.job_token = context_.job_token();
  request.job = context_.job_id();
  request.member = layout_.node_of[context_.rank()];
  // Whoever is refused at once waits for those that are not: their answer must come before the set-up ends.
  request.timeout = std::min(kJoinTimeout, context_.setup_time_left() / 2);
  // A silent tree is to be given up, and the call to end without it, before the call itself is.
  request.fragment_timeout = config.timeout / 2;
  if (!config.aggregator_key_file.empty()) {
    FOLDCAST_ASSIGN(request.key, read_key_file(config.aggregator_key_file));
  }
  return Joiner([request, tree = std::make_shared<const offload::Tree>(std::move(tree)),
                 network = transports_.network](std::uint32_t attempt) {
    offload::JoinRequest own = request;
    own.tree = tree.get();
    // A number is used once in a job.
    own.group += attempt % kMostAttempts << 16;
    if (attempt > 0) own.timeout = kRejoinTimeout;
    return offload::make_aggregator_provider(network)->join(own);
  });
}

Result<std::unique_ptr<offload::OffloadGroup>> WorldBuilder::ask_tree(Joiner& joiner) {
  FOLDCAST_ASSIGN(joiner, tree_joiner());
  return joiner(0);
}

std::uint32_t WorldBuilder::group_number() const {
  return kTreeBit | kWorld << 16 | static_cast<std::uint32_t>(layout_.local_rank_of[context_.rank()]);
}

/// The group through which calls reach the tree, and that survives it.
Status WorldBuilder::adopt_tree(std::unique_ptr<offload::OffloadGroup> tree, Joiner joiner,
                                const select::LinkModel& model) {
  const auto shard = static_cast<std::size_t>(layout_.local_rank_of[context_.rank()]);
  const std::size_t number = layout_.nodes.size() + shard;
  runtime::RecoverySetup setup;
  setup.name = fmt::format("tree {} ({})", shard, tree->describe());
  setup.caps = model.tree_caps;
  setup.join = std::move(joiner);
  setup.tell = [context = &context_, topic = group_number()](std::uint64_t value) { context->tell(topic, value); };
  setup.price = [selector = world_.selector_.get(), nodes = layout_.nodes.size()](std::string_view algorithm,
                                                                                  std::uint64_t bytes) {
    const auto price = selector->price_among(algorithm, nodes, bytes);
    return price.ok() ? *price : std::numeric_limits<double>::max();
  };
  const runtime::Endpoints& all = world_.endpoints_;
  setup.endpoints.communicator = group_number();
  setup.endpoints.rank = layout_.node_of[context_.rank()];
  for (const auto& ranks : layout_.nodes) {
    const auto rank = static_cast<std::size_t>(ranks[shard]);
    setup.endpoints.world_ranks.push_back(all.world_ranks[rank]);
    setup.endpoints.routes.push_back(all.routes[rank]);
    setup.endpoints.peers.push_back(all.peers[rank]);
    setup.endpoints.names.push_back(all.names[rank]);
  }
  world_.endpoints_.group_names[number] = setup.name;
  FOLDCAST_ASSIGN(auto group, runtime::RecoveringGroup::create(context_.executor(), std::move(setup), std::move(tree)));
  context_.listen(group_number(), [hearer = group.get()](std::uint64_t value) { hearer->hear(value); });
  world_.tree_topic_ = group_number();
  world_.endpoints_.groups[number] = group.get();
  world_.tree_ = std::move(group);
  return context_.add_engine(*world_.tree_);
}

Result<select::LinkModel> WorldBuilder::join_tree(select::PathPolicy policy) {
  select::LinkModel model;
  const Config& config = context_.config();
  JoinReport mine;
  std::unique_ptr<offload::OffloadGroup> group;
  Joiner joiner;
  const auto shard = static_cast<std::size_t>(layout_.local_rank_of[context_.rank()]);
  if (layout_.nodes.size() == 1) {
    model.tree_refusal = "one node: nothing leaves it";
    return model;
  }
  const bool configured = !config.topology.empty() && !config.aggregators.empty();
  if (policy == select::PathPolicy::kHost) {
    mine.text = "the path policy at set-up was host";
  } else if (!configured) {
    mine.text = "no aggregators are configured: set FOLDCAST_TOPOLOGY and FOLDCAST_AGGREGATORS";
  } else if (shard >= layout_.smallest_node()) {
    mine.outcome = JoinReport::Outcome::kIdle;
  } else if (auto asked = ask_tree(joiner); asked.ok()) {
    group = std::move(asked).value();
    mine.outcome = JoinReport::Outcome::kJoined;
    mine.caps = group->caps();
    mine.text = group->describe();
  } else {
    mine.text = asked.status().message();
  }

  // All or none: one member without the tree and everybody takes the host path.
  FOLDCAST_ASSIGN(const auto reports, context_.gather("world/tree", mine.serialize()));
  bool first = true;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    FOLDCAST_ASSIGN(const auto report, JoinReport::parse(reports[rank]));
    if (report.outcome == JoinReport::Outcome::kIdle) continue;
    if (report.outcome == JoinReport::Outcome::kRefused) {
      model.tree = false;
      model.tree_refusal = fmt::format("{}: {}", context_.names()[rank], report.text);
      const bool wanted = configured && policy != select::PathPolicy::kHost;
      if (context_.rank() == 0 && wanted) log().warn("no offload: {}", model.tree_refusal);
      return model;  // `group` leaves the tree here
    }
    model.tree_caps = first ? report.caps : intersect(model.tree_caps, report.caps);
    if (first) model.tree_description = report.text;
    first = false;
  }
  model.tree = !first;
  if (group) FOLDCAST_RETURN_IF_ERROR(adopt_tree(std::move(group), std::move(joiner), model));
  return model;
}

}  // namespace foldcast::api
