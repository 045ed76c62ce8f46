#include "hierarchy/composer.h"

#include <algorithm>
#include <numeric>
#include <variant>

namespace foldcast::hierarchy {

using schedule::BlockStage;
using schedule::Chunk;
using schedule::Part;
using schedule::Place;
using schedule::Space;
using schedule::Stage;
using Form = Composition::Form;

namespace {

constexpr Chunk kWholeInput{Space::kInput, 0, 1, 1};
constexpr Chunk kWholeOutput{Space::kOutput, 0, 1, 1};
constexpr Part kWhole{0, 1, 1};
constexpr Place kInput{Space::kInput, 0};
constexpr Place kOutput{Space::kOutput, 0};
constexpr std::uint8_t kUp = 0, kDown = 1;

}  // namespace

Composer::Composer(const Layout& layout, const Request& request, const Composition& composition, std::int32_t rank)
    : layout_(layout),
      request_(request),
      composition_(composition),
      builder_(rank),
      rank_(rank),
      size_(static_cast<std::uint32_t>(layout.size())),
      node_(static_cast<std::uint32_t>(layout.node_of[rank])),
      local_(static_cast<std::uint32_t>(layout.local_rank_of[rank])),
      mates_(layout.nodes[node_]),
      sharded_(composition.form == Form::kShards) {}

Result<schedule::Schedule> Composer::run() {
  builder_.set_rounding(request_.rounds);
  builder_.set_apart(!request_.in_place);
  const auto appended = [this] {
    switch (composition_.form) {
      case Form::kNode:
        return node_only();
      case Form::kFlat:
        return flat();
      case Form::kLeaders:
      case Form::kShards:
        break;
    }
    return with_nodes();
  }();
  FOLDCAST_RETURN_IF_ERROR(appended);
  return builder_.finish();
}

Status Composer::with_nodes() {
  switch (scheduled_as(request_.kind)) {
    case Collective::kAllReduce:
      return all_reduce();
    case Collective::kReduce:
      return reduce();
    case Collective::kBroadcast:
      return broadcast();
    case Collective::kReduceScatter:
      return reduce_scatter();
    case Collective::kAllGather:
      return all_gather();
    case Collective::kAllToAll:
      return all_to_all();
    case Collective::kGather:
      return gather();
    case Collective::kScatter:
      return scatter();
    default:
      return invalid_argument(std::string(to_string(request_.kind)) + " has no composition");
  }
}

Status Composer::node_only() {
  if (mates_.size() == 1) {  // alone on a node of several: only measuring does this
    builder_.copy(kWholeOutput, kWholeInput);
    return ok_status();
  }
  const bool rooted = has_root(request_.kind);
  const std::int32_t root = rooted ? layout_.local_rank_of[request_.root] : -1;
  switch (scheduled_as(request_.kind)) {
    case Collective::kAllReduce:
      node_step(Verb::kAllReduce, kUp, kWholeInput, kWholeOutput);
      break;
    case Collective::kReduce:
      node_step(Verb::kReduce, kUp, kWholeInput, kWholeOutput, root);
      break;
    case Collective::kBroadcast:
      node_step(Verb::kBroadcast, kUp, kWholeInput, kWholeOutput, root);
      break;
    case Collective::kReduceScatter:
      node_step(Verb::kReduceScatter, kUp, kWholeInput, kWholeOutput, -1, size_);
      break;
    case Collective::kAllGather:
      node_step(Verb::kAllGather, kUp, kWholeInput, kWholeOutput, -1, size_);
      break;
    case Collective::kAllToAll:
      node_step(Verb::kAllToAll, kUp, kInput.at(span_of(node_)), kOutput.at(span_of(node_)), -1, size_);
      break;
    case Collective::kGather:
      node_step(Verb::kGather, kUp, kWholeInput, kWholeOutput, root, size_);
      break;
    case Collective::kScatter:
      node_step(Verb::kScatter, kUp, kWholeInput, kWholeOutput, root, size_);
      break;
    default:
      return invalid_argument(std::string(to_string(request_.kind)) + " is not a call of a node group");
  }
  return ok_status();
}

Status Composer::flat() {
  std::vector<std::int32_t> members(size_);
  std::iota(members.begin(), members.end(), 0);
  if (!has_blocks(request_.kind)) {
    Stage stage;
    stage.members = members;
    stage.self = rank_;
    stage.root = request_.root;
    stage.source = kWholeInput;
    stage.target = kWholeOutput;
    return network(stage);
  }
  std::vector<Part> blocks;
  for (std::int32_t member : members) blocks.push_back(block_of(member));
  BlockStage stage;
  stage.members = members;
  stage.self = rank_;
  stage.root = request_.root;
  stage.blocks = blocks;
  stage.source = kInput;
  stage.target = kOutput;
  stage.in_place = request_.in_place;
  return network(stage);
}

Status Composer::all_reduce() {
  const std::uint32_t shards = composition_.shards;
  const bool shares = mates_.size() > 1;
  if (shares) node_step(Verb::kReduceScatter, kUp, kWholeInput, kWholeOutput, -1, shards);
  if (local_ < shards) {
    const auto members = column(local_);
    Stage stage;
    stage.members = members;
    stage.self = static_cast<std::int32_t>(node_);
    stage.target = {Space::kOutput, local_, shards, 1};
    stage.source = {shares ? Space::kOutput : Space::kInput, local_, shards, 1};
    FOLDCAST_RETURN_IF_ERROR(network(stage));
  }
  if (shares) node_step(Verb::kAllGather, kDown, kWholeOutput, kWholeOutput, -1, shards);
  return ok_status();
}

Status Composer::reduce() {
  const bool is_root = rank_ == request_.root;
  const bool shares = mates_.size() > 1;
  const std::int32_t root_node = layout_.node_of[request_.root];
  if (!sharded_ && !leads()) {
    node_step(Verb::kReduce, kUp, kWholeInput, kWholeOutput, layout_.local_rank_of[column(0)[node_]]);
    return ok_status();
  }
  // Only the root has an output.
  const Place sums = is_root ? kOutput : Place{Space::kScratch, shares ? builder_.scratch_unit() : 0};
  const std::uint32_t shards = sharded_ ? composition_.shards : 1;
  const std::uint32_t shard = sharded_ ? local_ : 0;
  if (shares && sharded_) node_step(Verb::kReduceScatter, kUp, kWholeInput, sums.at(kWhole), -1, shards);
  if (shares && !sharded_) {
    node_step(Verb::kReduce, kUp, kWholeInput, sums.at(kWhole), static_cast<std::int32_t>(local_));
  }
  const auto members = column(shard);
  Stage stage;
  stage.members = members;
  stage.self = static_cast<std::int32_t>(node_);
  stage.root = root_node;
  stage.source = (shares ? sums : kInput).at({shard, shards, 1});
  const bool keeps = static_cast<std::int32_t>(node_) == root_node && (shares || is_root);
  stage.target = keeps ? sums.at({shard, shards, 1}) : stage.source;
  FOLDCAST_RETURN_IF_ERROR(network(stage));
  if (sharded_ && shares && static_cast<std::int32_t>(node_) == root_node) {
    node_step(Verb::kGather, kDown, sums.at(kWhole), kWholeOutput, layout_.local_rank_of[request_.root], shards);
  }
  return ok_status();
}

Status Composer::broadcast() {
  const bool shares = mates_.size() > 1;
  const std::int32_t root_node = layout_.node_of[request_.root];
  const bool on_root_node = static_cast<std::int32_t>(node_) == root_node;
  const std::int32_t root_local = layout_.local_rank_of[request_.root];
  if (sharded_ && on_root_node && shares) node_step(Verb::kBroadcast, kDown, kWholeInput, kWholeOutput, root_local);
  const std::uint32_t shards = sharded_ ? composition_.shards : 1;
  const std::uint32_t shard = sharded_ ? local_ : 0;
  const auto members = column(shard);
  if (sharded_ || leads()) {
    Stage stage;
    stage.members = members;
    stage.self = static_cast<std::int32_t>(node_);
    stage.root = root_node;
    stage.target = {Space::kOutput, shard, shards, 1};
    stage.source = stage.target;
    if (rank_ == request_.root && !(sharded_ && shares)) stage.source.space = Space::kInput;
    FOLDCAST_RETURN_IF_ERROR(network(stage));
  }
  if (!shares) return ok_status();
  if (!sharded_) {
    node_step(Verb::kBroadcast, kDown, kWholeOutput, kWholeOutput, layout_.local_rank_of[members[node_]]);
  } else if (!on_root_node) {
    node_step(Verb::kAllGather, kDown, kWholeOutput, kWholeOutput, -1, shards);
  }
  return ok_status();
}

Status Composer::reduce_scatter() {
  const bool shares = mates_.size() > 1;
  const std::size_t nodes = layout_.nodes.size();
  const auto owners = static_cast<std::uint32_t>(mates_.size());
  const auto blocks = column_blocks();
  const auto members = column(sharded_ ? local_ : 0);
  BlockStage stage;
  stage.members = members;
  stage.self = static_cast<std::int32_t>(node_);
  stage.blocks = blocks;
  stage.source = kInput;
  stage.target = kOutput;
  if (sharded_) {
    stage.source = {Space::kScratch, builder_.scratch_unit()};
    for (std::size_t node = 0; node < nodes; ++node) {
      const Part span = span_of(node);
      node_step(Verb::kReduceScatter, kUp, kInput.at(span), stage.source.at(span), -1, owners);
    }
    return network(stage);
  }
  if (!shares) return network(stage);
  const Chunk result = kOutput.at(span_of(node_));
  if (!leads()) {
    node_step(Verb::kReduce, kUp, kWholeInput, kWholeOutput, 0);
    node_step(Verb::kScatter, kDown, kInput.at(span_of(node_)), result, 0, owners);
    return ok_status();
  }
  stage.source = stage.target = {Space::kScratch, builder_.scratch_unit()};
  node_step(Verb::kReduce, kUp, kWholeInput, stage.source.at(kWhole), 0);
  FOLDCAST_RETURN_IF_ERROR(network(stage));
  node_step(Verb::kScatter, kDown, stage.target.at(span_of(node_)), result, 0, owners);
  return ok_status();
}

Status Composer::all_gather() {
  const bool shares = mates_.size() > 1;
  const std::size_t nodes = layout_.nodes.size();
  const auto owners = static_cast<std::uint32_t>(mates_.size());
  const auto blocks = column_blocks();
  const auto members = column(sharded_ ? local_ : 0);
  BlockStage stage;
  stage.members = members;
  stage.self = static_cast<std::int32_t>(node_);
  stage.blocks = blocks;
  stage.source = kInput;
  stage.target = kOutput;
  if (sharded_) {
    FOLDCAST_RETURN_IF_ERROR(network(stage));
    for (std::size_t node = 0; node < nodes; ++node) {
      const Chunk span = kOutput.at(span_of(node));
      node_step(Verb::kAllGather, kDown, span, span, -1, owners);
    }
    return ok_status();
  }
  if (!shares) return network(stage);
  const Part own = span_of(node_);
  node_step(Verb::kGather, kUp, kInput.at(own), kOutput.at(own), 0, owners);
  if (leads()) {
    stage.source = kOutput;
    FOLDCAST_RETURN_IF_ERROR(network(stage));
  }
  node_step(Verb::kBroadcast, kDown, kWholeOutput, kWholeOutput, 0);
  return ok_status();
}

/// Blocks of the own node go through its memory, the others directly from rank to rank.
Status Composer::all_to_all() {
  if (mates_.size() > 1) {
    const Part own = span_of(node_);
    node_step(Verb::kAllToAll, kUp, kInput.at(own), kOutput.at(own), -1, static_cast<std::uint32_t>(mates_.size()));
  } else {
    builder_.copy(kOutput.at(block_of(rank_)), kInput.at(block_of(rank_)));
  }
  // In place, what comes must wait outside until what was there is gone.
  const Place landing = request_.in_place ? Place{Space::kScratch, builder_.scratch_unit()} : kOutput;
  const auto is_remote = [&](std::uint32_t rank) { return layout_.node_of[rank] != static_cast<std::int32_t>(node_); };
  const auto self = static_cast<std::uint32_t>(rank_);
  for (std::uint32_t distance = 1; distance < size_; ++distance) {
    const std::uint32_t to = (self + distance) % size_;
    const std::uint32_t from = (self + size_ - distance) % size_;
    if (is_remote(from)) {
      builder_.recv(static_cast<std::int32_t>(from), landing.at(block_of(static_cast<std::int32_t>(from))));
    }
    if (is_remote(to)) {
      builder_.send(static_cast<std::int32_t>(to), kInput.at(block_of(static_cast<std::int32_t>(to))));
    }
  }
  if (!request_.in_place) return ok_status();
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    const Part block = block_of(static_cast<std::int32_t>(rank));
    if (is_remote(rank)) builder_.copy(kOutput.at(block), landing.at(block));
  }
  return ok_status();
}

Status Composer::gather() {
  const bool is_root = rank_ == request_.root;
  const bool shares = mates_.size() > 1;
  const auto members = column(0);
  const std::int32_t leader = layout_.local_rank_of[members[node_]];
  const Part own = span_of(node_);
  const auto owners = static_cast<std::uint32_t>(mates_.size());
  if (!leads()) {
    node_step(Verb::kGather, kUp, kInput.at(own), kOutput.at(own), leader, owners);
    return ok_status();
  }
  Place collected = kInput;
  if (shares) {
    collected = is_root ? kOutput : Place{Space::kScratch, builder_.scratch_unit()};
    node_step(Verb::kGather, kUp, kInput.at(own), collected.at(own), leader, owners);
  }
  const auto blocks = column_blocks();
  BlockStage stage;
  stage.members = members;
  stage.self = static_cast<std::int32_t>(node_);
  stage.root = layout_.node_of[request_.root];
  stage.blocks = blocks;
  stage.source = collected;
  stage.target = is_root ? kOutput : collected;
  return network(stage);
}

Status Composer::scatter() {
  const bool is_root = rank_ == request_.root;
  const bool shares = mates_.size() > 1;
  const auto members = column(0);
  const std::int32_t leader = layout_.local_rank_of[members[node_]];
  const Part own = span_of(node_);
  const auto owners = static_cast<std::uint32_t>(mates_.size());
  Place received = kInput;  // the root's node finds its part where it is
  if (leads()) {
    if (!shares) received = kOutput;
    if (shares && !is_root) received = {Space::kScratch, builder_.scratch_unit()};
    const auto blocks = column_blocks();
    BlockStage stage;
    stage.members = members;
    stage.self = static_cast<std::int32_t>(node_);
    stage.root = layout_.node_of[request_.root];
    stage.blocks = blocks;
    stage.source = is_root ? kInput : received;
    stage.target = received;
    FOLDCAST_RETURN_IF_ERROR(network(stage));
  }
  if (shares) node_step(Verb::kScatter, kDown, received.at(own), kOutput.at(own), leader, owners);
  return ok_status();
}

std::vector<std::int32_t> Composer::column(std::uint32_t shard) const {
  std::vector<std::int32_t> members;
  for (const auto& ranks : layout_.nodes) members.push_back(ranks[shard]);
  if (!sharded_ && has_root(request_.kind)) members[layout_.node_of[request_.root]] = request_.root;
  return members;
}

std::vector<Part> Composer::column_blocks() const {
  std::vector<Part> blocks;
  for (std::size_t node = 0; node < layout_.nodes.size(); ++node) {
    blocks.push_back(sharded_ ? block_of(layout_.nodes[node][local_]) : span_of(node));
  }
  return blocks;
}

bool Composer::leads() const { return column(0)[node_] == rank_; }

Part Composer::span_of(std::size_t node) const {
  const auto& ranks = layout_.nodes[node];
  return {static_cast<std::uint32_t>(ranks.front()), size_, static_cast<std::uint32_t>(ranks.size())};
}

Part Composer::block_of(std::int32_t rank) const { return {static_cast<std::uint32_t>(rank), size_, 1}; }

void Composer::node_step(Verb verb, std::uint8_t lane, const Chunk& source, const Chunk& target, std::int32_t root,
                         std::uint32_t owners) {
  builder_.group({.verb = verb,
                  .group = node_,
                  .lane = lane,
                  .owners = static_cast<std::uint16_t>(owners),
                  .root = root,
                  .source = source,
                  .target = target});
}

Status Composer::network(const Stage& stage) {
  if (composition_.offloaded()) {
    builder_.group({.verb = Verb::kAllReduce,
                    .group = static_cast<std::uint32_t>(layout_.nodes.size()) + (sharded_ ? local_ : 0),
                    .source = stage.source,
                    .target = stage.target});
    return ok_status();
  }
  FOLDCAST_ASSIGN(const auto algorithm, schedule::find_algorithm(scheduled_as(request_.kind), composition_.network));
  std::get<schedule::StageAlgorithm>(algorithm.build)(builder_, stage);
  return ok_status();
}

Status Composer::network(const BlockStage& stage) {
  FOLDCAST_ASSIGN(const auto algorithm, schedule::find_algorithm(scheduled_as(request_.kind), composition_.network));
  std::get<schedule::BlockAlgorithm>(algorithm.build)(builder_, stage);
  return ok_status();
}

}  // namespace foldcast::hierarchy
