#include "offload/client/provider.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <utility>

#include "offload/client/group.h"

namespace foldcast::offload {
namespace {

/// What a member asks for; the aggregators' own settings are what usually decides.
constexpr std::uint32_t kWantedWindow = 256;
constexpr std::uint32_t kWantedFragment = 1u << 20;

GroupCaps member_caps() {
  GroupCaps caps;
  caps.dtypes = GroupCaps::kAllDtypes;
  caps.ops = GroupCaps::kAllOps;
  caps.deterministic = true;
  return caps;
}

Status check(const JoinRequest& request) {
  if (request.tree == nullptr) return invalid_argument("a join without a tree");
  FOLDCAST_RETURN_IF_ERROR(request.tree->validate());
  if ((request.group & kGroupBit) == 0) return invalid_argument("a group's id has the top bit set");
  if (request.member < 0 || static_cast<std::size_t>(request.member) >= request.tree->parent_of_member.size()) {
    return invalid_argument("member " + std::to_string(request.member) + " is not in the tree");
  }
  if (request.tree->vertices.size() > kMaxVertices || request.tree->parent_of_member.size() > kMaxMembers) {
    return invalid_argument("a tree of more than " + std::to_string(kMaxVertices) + " aggregators or " +
                            std::to_string(kMaxMembers) + " members");
  }
  return ok_status();
}

std::string path_to_root(const Tree& tree, std::int32_t vertex) {
  std::string path = tree.vertices[vertex].name;
  while ((vertex = tree.vertices[vertex].parent) >= 0) path += " -> " + tree.vertices[vertex].name;
  return path;
}

class AggregatorProvider final : public OffloadProvider {
 public:
  explicit AggregatorProvider(TransportFactory make_transport) : make_transport_(std::move(make_transport)) {}

  Result<std::unique_ptr<OffloadGroup>> join(const JoinRequest& request) override;

 private:
  Result<std::shared_ptr<DataPlane>> plane_for(std::uint64_t token);

  const TransportFactory make_transport_;
  std::map<std::uint64_t, std::shared_ptr<DataPlane>> planes_;
  std::shared_ptr<LeaseKeeper> keeper_;
};

Result<std::shared_ptr<DataPlane>> AggregatorProvider::plane_for(std::uint64_t token) {
  if (const auto known = planes_.find(token); known != planes_.end()) return known->second;
  FOLDCAST_ASSIGN(auto transport, make_transport_(token));
  auto plane = std::make_shared<DataPlane>(std::move(transport));
  planes_.emplace(token, plane);
  return plane;
}

Join join_frame(const JoinRequest& request, const std::string& address) {
  Join join;
  join.group = request.group;
  join.incarnation = request.incarnation;
  join.job_token = request.job_token;
  join.kind = ChildKind::kMember;
  join.index = request.member;
  join.vertex = request.tree->parent_of_member[request.member];
  // Less than our own patience, so that the aggregator can still tell us for whom it waited.
  join.timeout_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(request.timeout.count() * 4 / 5, 1, UINT32_MAX));
  join.window = kWantedWindow;
  join.fragment = kWantedFragment;
  join.caps = member_caps();
  join.address = address;
  join.job = request.job;
  join.tree = *request.tree;
  return join;
}

/// Waits on the control connection until the membership is granted or refused. What the aggregator says names it
/// already.
Status await_grant(bootstrap::Channel& channel, const std::string& aggregator, Membership& membership,
                   Deadline deadline) {
  while (!membership.grant() && !membership.ended()) {
    auto bytes = channel.receive(deadline);
    if (!bytes.ok()) return bytes.status().with_context(aggregator);
    auto frame = decode(*bytes);
    if (!frame.ok()) return frame.status().with_context(aggregator);
    membership.on_frame(*frame, std::chrono::steady_clock::now());
  }
  return membership.failure();
}

/// One barrier over the whole tree before anybody relies on it: a data path that is blocked or broken fails the join,
/// while the host path is still to be had, and not the first call. It also gets the transports' own connecting over
/// with.
Status prove_data_path(OffloadGroup& group, const std::string& aggregator, Deadline deadline) {
  EngineCall call;
  call.verb = Verb::kBarrier;
  if (group.post(call, 0) == Posted::kRetry) return internal_error("a new group has no room for a call");
  Completion completion;
  while (group.poll({&completion, 1}) == 0) {
    if (deadline.passed()) return timeout("no answer over the data path to " + aggregator + " within the join's time");
    if (!group.arm()) continue;
    pollfd ready{group.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, deadline.poll_timeout());
  }
  return completion.status;
}

Result<std::unique_ptr<OffloadGroup>> AggregatorProvider::join(const JoinRequest& request) {
  FOLDCAST_RETURN_IF_ERROR(check(request));
  const Deadline deadline = Deadline::after(request.timeout);
  const std::int32_t vertex = request.tree->parent_of_member[request.member];
  const auto& above = request.tree->vertices[vertex];
  GroupSetup setup;
  setup.aggregator = "aggregator " + above.name + " (" + above.control + ")";
  setup.lane = {request.group, request.incarnation};
  setup.path = path_to_root(*request.tree, vertex);
  setup.fragment_timeout = request.fragment_timeout;
  FOLDCAST_ASSIGN(setup.plane, plane_for(request.job_token));
  if (!keeper_) {
    FOLDCAST_ASSIGN(keeper_, LeaseKeeper::create());
  }
  setup.keeper = keeper_;
  FOLDCAST_ASSIGN(setup.fate, Fate::create());
  FOLDCAST_ASSIGN(const auto control, split_control(above.control));
  auto channel = bootstrap::Channel::connect(
      control.host, control.port, {.key = request.key, .service = std::string(kService), .max_frame = kMaxControlFrame},
      deadline);
  if (!channel.ok()) return channel.status().with_context(setup.aggregator);
  setup.channel = std::move(*channel);
  setup.membership.emplace(request.group, setup.aggregator, std::chrono::steady_clock::now());
  Status status = setup.channel->send(encode(join_frame(request, setup.plane->transport().address())));
  if (status.ok()) status = setup.channel->flush(deadline);
  if (!status.ok()) return status.with_context(setup.aggregator);
  FOLDCAST_RETURN_IF_ERROR(await_grant(*setup.channel, setup.aggregator, *setup.membership, deadline));
  const std::string aggregator = setup.aggregator;
  FOLDCAST_ASSIGN(auto group, AggregatorGroup::create(std::move(setup)));
  FOLDCAST_RETURN_IF_ERROR(prove_data_path(*group, aggregator, deadline));
  return std::unique_ptr<OffloadGroup>(std::move(group));
}

}  // namespace

std::unique_ptr<OffloadProvider> make_aggregator_provider(TransportFactory make_transport) {
  return std::make_unique<AggregatorProvider>(std::move(make_transport));
}

}  // namespace foldcast::offload
