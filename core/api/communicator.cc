#include "core/api/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/api/premul.h"
#include "hierarchy/planner.h"
#include "hierarchy/shm/shm_node_group.h"

namespace foldcast::api {
namespace {

/// Sequence numbers of point-to-point messages, which do not count as calls, are apart from those of calls.
constexpr std::uint64_t kPointToPoint = std::uint64_t{1} << 63;

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<runtime::Context> context,
                                                           std::span<const std::int32_t> members, std::uint32_t number,
                                                           const Communicator* parent) {
  const runtime::Context& c = *context;
  std::unique_ptr<Communicator> made(new Communicator(std::move(context), c.layout().subset(members)));
  auto& endpoints = made->endpoints_;
  endpoints.communicator = number;
  endpoints.world_ranks.assign(members.begin(), members.end());
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const auto world_rank = static_cast<std::size_t>(members[rank]);
    if (members[rank] == c.rank()) endpoints.rank = static_cast<std::int32_t>(rank);
    endpoints.routes.push_back(c.routes()[world_rank]);
    endpoints.peers.push_back(c.peers()[world_rank]);
    endpoints.names.push_back(c.names()[world_rank]);
  }
  for (const auto& group : hierarchy::groups_of(made->layout_)) {
    endpoints.groups.push_back(nullptr);
    endpoints.group_names.push_back(group.name);
  }
  made->sent_.assign(members.size(), 0);
  made->received_.assign(members.size(), 0);
  const std::int32_t first = *std::min_element(members.begin(), members.end());
  FOLDCAST_RETURN_IF_ERROR(made->join_node(first, parent));
  made->selector_ = std::make_unique<select::Selector>(made->layout_, endpoints.rank, select::LinkModel());
  const runtime::Lock lock = made->lock();
  made->context_->enter_communicator(number, first);
  if (made->node_group_) {
    endpoints.groups[made->layout_.node_of[endpoints.rank]] = made->node_group_.get();
    FOLDCAST_RETURN_IF_ERROR(made->context_->add_engine(*made->node_group_));
  }
  return made;
}

Communicator::~Communicator() {
  const runtime::Lock lock = this->lock();
  if (tree_) {
    context_->stop_listening(tree_topic_);
    tree_->close();
    context_->remove_engine(*tree_);
    tree_.reset();
  }
  if (node_group_) context_->remove_engine(*node_group_);
  context_->leave_communicator(endpoints_.communicator);
}

Status Communicator::join_node(std::int32_t first, const Communicator* parent) {
  const int node = layout_.node_of[endpoints_.rank];
  const auto& ranks = layout_.nodes[node];
  if (ranks.size() == 1) return ok_status();
  const std::string name = fmt::format("{}-{:016x}-{}-{}-{}", context_->job_id(), context_->job_token(),
                                       endpoints_.communicator, first, node);
  if (parent != nullptr && parent->node_group_) {
    hierarchy::ShmChildOptions options;
    options.name = name;
    const auto& theirs = parent->endpoints_.world_ranks;
    for (std::int32_t rank : ranks) {
      const auto at = std::find(theirs.begin(), theirs.end(), endpoints_.world_ranks[rank]);
      options.members.push_back(parent->layout_.local_rank_of[at - theirs.begin()]);
    }
    options.timeout = context_->config().setup_timeout;
    FOLDCAST_ASSIGN(node_group_, hierarchy::make_shm_child_group(*parent->node_group_, options));
    return ok_status();
  }
  hierarchy::ShmOptions options;
  options.name = name;
  options.rank = layout_.local_rank_of[endpoints_.rank];
  options.size = static_cast<int>(ranks.size());
  options.cross_memory = context_->cross_memory();
  options.timeout = context_->config().setup_timeout;
  FOLDCAST_ASSIGN(node_group_, hierarchy::make_shm_node_group(options));
  return ok_status();
}

Result<std::unique_ptr<Communicator>> Communicator::descend(std::span<const std::int32_t> members,
                                                            std::uint32_t number) {
  FOLDCAST_ASSIGN(auto made, create(context_, members, number, this));
  select::LinkModel model = selector_->model();
  model.tree = false;
  model.tree_refusal = "only the job's first communicator joins a tree";
  made->selector_->set_model(std::move(model));
  made->selector_->set_policy(selector_->policy());
  FOLDCAST_RETURN_IF_ERROR(made->selector_->force(selector_->forced()));
  made->wire_ = wire_;
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::split(std::int32_t colour, std::int32_t key) {
  struct Wish {
    std::int32_t colour, key;
    std::uint32_t number, unused;
  };
  const auto n = static_cast<std::size_t>(size());
  Wish mine{colour, key, 0, 0};
  {
    const runtime::Lock lock = this->lock();
    mine.number = context_->next_communicator();
  }
  std::vector<Wish> all(n);
  CollectiveCall exchange;
  exchange.kind = Collective::kAllGather;
  exchange.send = &mine;
  exchange.recv = all.data();
  exchange.count = sizeof(Wish);
  FOLDCAST_RETURN_IF_ERROR(run(exchange).with_context("splitting a communicator"));

  std::uint32_t number = 0;
  for (const Wish& wish : all) number = std::max(number, wish.number);
  std::vector<std::int32_t> members;
  for (std::size_t rank = 0; rank < n; ++rank) {
    if (colour != kNoColour && all[rank].colour == colour) members.push_back(static_cast<std::int32_t>(rank));
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](std::int32_t a, std::int32_t b) { return all[a].key < all[b].key; });
  for (std::int32_t& member : members) member = endpoints_.world_ranks[member];

  Result<std::unique_ptr<Communicator>> made(std::unique_ptr<Communicator>{});
  if (!members.empty()) made = descend(members, number);
  // All or none: a communicator that some of its ranks lack could only hang.
  std::uint8_t failed = made.ok() ? 0 : 1;
  CollectiveCall vote;
  vote.send = vote.recv = &failed;
  vote.count = 1;
  vote.op = ReduceOp::kMax;
  FOLDCAST_RETURN_IF_ERROR(run(vote).with_context("splitting a communicator"));
  if (made.ok() && failed != 0) return unavailable("another rank could not make the new communicator; see its error");
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::shrink() {
  const auto& members = endpoints_.world_ranks;
  const std::vector<int> asked(members.begin(), members.end());
  const std::int32_t first = *std::min_element(members.begin(), members.end());
  const std::string name = fmt::format("shrink/{}/{}/{}", endpoints_.communicator, first, ++shrinks_);
  const Deadline deadline = Deadline::after(context_->config().setup_timeout);
  std::vector<std::int32_t> survivors;
  std::uint32_t number = 0;
  {
    const runtime::Lock lock = this->lock();
    const std::string mine = std::to_string(context_->next_communicator());
    FOLDCAST_ASSIGN(const auto answers, context_->store().gather_alive(name, asked, mine, deadline));
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      if (!answers[rank]) continue;
      survivors.push_back(members[rank]);
      number = std::max(number, static_cast<std::uint32_t>(std::stoul(*answers[rank])));
    }
  }
  auto made = descend(survivors, number);
  const runtime::Lock lock = this->lock();
  const std::vector<int> voters(survivors.begin(), survivors.end());
  FOLDCAST_ASSIGN(const auto votes,
                  context_->store().gather(name + "/made", voters, made.ok() ? "yes" : "no", deadline));
  const bool all_made = std::all_of(votes.begin(), votes.end(), [](const auto& vote) { return vote == "yes"; });
  if (made.ok() && !all_made) return unavailable("another rank could not make the new communicator; see its error");
  return made;
}

void Communicator::abort() {
  const runtime::Lock lock = this->lock();
  context_->abort(endpoints_.communicator);
}

select::CallShape Communicator::shape_of(const CollectiveCall& call) const {
  select::CallShape shape;
  shape.kind = call.kind;
  shape.dtype = call.dtype;
  shape.op = is_premul(call.op) ? ReduceOp::kPremulSum : call.op;
  shape.root = has_root(call.kind) ? call.root : 0;
  shape.count = call.count;
  shape.in_place = false;
  if (reduces(shape.kind) && shape.dtype == Datatype::kFloat32 && layout_.nodes.size() > 1) shape.wire = wire_;
  return shape;
}

Result<double> Communicator::timed_call(const hierarchy::Composition& composition, std::byte* buffer,
                                        std::uint64_t bytes) {
  runtime::Lock lock = this->lock();
  FOLDCAST_ASSIGN(const select::Plan* plan, selector_->plan_of(composition, bytes));
  runtime::Binding binding;
  binding.input.data = binding.output.data = buffer;
  binding.count = bytes;
  binding.signature = {Collective::kAllReduce, Datatype::kUint8, ReduceOp::kMax, WireFormat::kExact, 0, bytes};
  binding.sequence = ++sequence_;
  const auto begin = std::chrono::steady_clock::now();
  FOLDCAST_ASSIGN(runtime::Execution * execution, context_->executor().launch(endpoints_, *plan, binding));
  const Status status = context_->progress().wait(*execution, lock);
  context_->executor().release(execution);
  FOLDCAST_RETURN_IF_ERROR(status);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

std::string Communicator::tree_news() const {
  return tree_ && !tree_->news().empty() ? tree_->name() + ": " + tree_->news() : std::string();
}

void Communicator::set_link_model(select::LinkModel model) {
  const runtime::Lock lock = this->lock();
  selector_->set_model(std::move(model));
}

Status Communicator::start(const CollectiveCall& call, Operation& operation) {
  FOLDCAST_RETURN_IF_ERROR(operation.prepare(call, rank(), size()));
  const runtime::Lock lock = this->lock();
  FOLDCAST_ASSIGN(const select::Selection selection, plan_for(operation));
  return launch(operation, *selection.plan);
}

Result<select::Selection> Communicator::plan_for(Operation& operation) {
  const CollectiveCall& call = operation.call();
  if (call.kind == Collective::kSendRecv) {
    if (endpoints_.routes[call.root] == nullptr) return unsupported("a job of one rank sends no messages");
    return select::Selection{.plan = &selector_->point_to_point(call.root, call.sends)};
  }
  select::CallShape shape = operation.shape();
  if (reduces(shape.kind) && shape.dtype == Datatype::kFloat32 && layout_.nodes.size() > 1) shape.wire = wire_;
  operation.binding().signature.wire = shape.wire;
  FOLDCAST_ASSIGN(const auto selection, selector_->select_for_call(shape));
  if (operation.has_gaps() && layout_.nodes.size() == 1) operation.close_gaps();
  return selection;
}

Status Communicator::launch(Operation& operation, const select::Plan& plan) {
  const CollectiveCall& call = operation.call();
  runtime::Binding& binding = operation.binding();
  std::uint64_t* number = &sequence_;
  if (call.kind == Collective::kSendRecv) {
    number = &(call.sends ? sent_ : received_)[call.root];
    binding.sequence = kPointToPoint | (*number + 1);
  } else {
    binding.sequence = *number + 1;
  }
  FOLDCAST_ASSIGN(operation.execution, context_->executor().launch(endpoints_, plan, binding));
  ++*number;  // a refused call has no number: the others do not know of it
  context_->progress().nudge();
  return ok_status();
}

Status Communicator::finish(Operation& operation) {
  runtime::Lock lock = this->lock();
  return finish(operation, lock);
}

Status Communicator::finish(Operation& operation, runtime::Lock& lock) {
  const Status status = context_->progress().wait(*operation.execution, lock);
  context_->executor().release(operation.execution);
  operation.execution = nullptr;
  if (status.ok()) operation.finish();
  return status;
}

bool Communicator::test(Operation& operation) {
  const runtime::Lock lock = this->lock();
  if (!operation.execution->finished()) context_->progress().poll(*operation.execution);
  return operation.execution->finished();
}

Status Communicator::run(const CollectiveCall& call) {
  if (last_.plan != nullptr && last_.revision == selector_->revision() && last_.call == call) return run_again();
  Operation operation;
  FOLDCAST_RETURN_IF_ERROR(operation.prepare(call, rank(), size()));
  runtime::Lock lock = this->lock();
  FOLDCAST_ASSIGN(const select::Selection selection, plan_for(operation));
  FOLDCAST_RETURN_IF_ERROR(launch(operation, *selection.plan));
  // A downgraded call is counted each time.
  last_.plan = operation.is_plain() && !selection.downgraded ? selection.plan : nullptr;
  last_.revision = selector_->revision();
  last_.call = call;
  last_.binding = operation.binding();
  return finish(operation, lock);
}

Status Communicator::run_again() {
  runtime::Lock lock = this->lock();
  last_.binding.sequence = sequence_ + 1;
  FOLDCAST_ASSIGN(runtime::Execution* const execution,
                  context_->executor().launch(endpoints_, *last_.plan, last_.binding));
  ++sequence_;
  context_->progress().nudge();
  const Status status = context_->progress().wait(*execution, lock);
  context_->executor().release(execution);
  return status;
}

}  // namespace foldcast::api
