#include "tests/core/schedule/staging.h"

#include <string>
#include <variant>

namespace foldcast::schedule {
namespace {

constexpr Part kWhole{0, 1, 1};
constexpr Place kIn{Space::kInput, 0};
constexpr Place kOut{Space::kOutput, 0};

/// Writes one rank's schedule.
class Staging {
 public:
  Staging(Builder& builder, const Algorithm& algorithm, const StagedCall& call)
      : builder_(builder), algorithm_(algorithm), call_(call) {
    for (std::uint32_t size : call.sizes) {
      first_.push_back(ranks_);
      ranks_ += size;
    }
    const auto rank = static_cast<std::uint32_t>(builder.rank());
    node_ = node_of(rank);
    local_ = rank - first_[node_];
    root_node_ = node_of(static_cast<std::uint32_t>(call.root));
    root_local_ = static_cast<std::uint32_t>(call.root) - first_[root_node_];
    is_root_ = builder.rank() == call.root;
  }

  void run() {
    builder_.set_rounding(call_.rounds);
    switch (algorithm_.kind) {
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
        return;
    }
  }

 private:
  std::uint32_t node_of(std::uint32_t rank) const {
    std::uint32_t node = 0;
    while (node + 1 < first_.size() && first_[node + 1] <= rank) ++node;
    return node;
  }
  std::uint32_t local_size() const { return call_.sizes[node_]; }
  Part span_of(std::uint32_t node) const { return {first_[node], ranks_, call_.sizes[node]}; }
  /// The local rank that stands for a node: the root on its own.
  std::uint32_t leader_of(std::uint32_t node) const {
    if (call_.columns) return local_;
    return has_root(algorithm_.kind) && node == root_node_ ? root_local_ : 0;
  }
  bool leads() const { return leader_of(node_) == local_; }
  std::vector<std::int32_t> members() const {
    std::vector<std::int32_t> all;
    for (std::uint32_t node = 0; node < first_.size(); ++node) {
      all.push_back(static_cast<std::int32_t>(first_[node] + leader_of(node)));
    }
    return all;
  }

  void group(Verb verb, const Chunk& source, const Chunk& target, std::uint32_t root, std::uint32_t owners = 0) {
    builder_.group({.verb = verb,
                    .group = node_,
                    .lane = static_cast<std::uint8_t>(verb == Verb::kAllGather || verb == Verb::kScatter ? 1 : 0),
                    .owners = static_cast<std::uint16_t>(owners),
                    .root = static_cast<std::int32_t>(root),
                    .source = source,
                    .target = target});
  }
  void network(const Chunk& source, const Chunk& target) {
    const auto all = members();
    Stage stage;
    stage.members = all;
    stage.self = static_cast<std::int32_t>(node_);
    stage.root = static_cast<std::int32_t>(root_node_);
    stage.source = source;
    stage.target = target;
    stage.channel = 3;
    std::get<StageAlgorithm>(algorithm_.build)(builder_, stage);
  }
  void network(const Place& source, const Place& target) {
    const auto all = members();
    std::vector<Part> blocks;
    for (std::uint32_t node = 0; node < first_.size(); ++node) {
      blocks.push_back(call_.columns ? Part{first_[node] + local_, ranks_, 1} : span_of(node));
    }
    BlockStage stage;
    stage.members = all;
    stage.self = static_cast<std::int32_t>(node_);
    stage.root = static_cast<std::int32_t>(root_node_);
    stage.blocks = blocks;
    stage.source = source;
    stage.target = target;
    stage.channel = 3;
    std::get<BlockAlgorithm>(algorithm_.build)(builder_, stage);
  }
  Place scratch() { return {Space::kScratch, builder_.scratch_unit()}; }

  void all_reduce() {
    const std::uint32_t owners = call_.columns ? local_size() : 1;
    group(Verb::kReduceScatter, kIn.at(kWhole), kOut.at(kWhole), 0, owners);
    if (local_ < owners) network(kOut.at({local_, owners}), kOut.at({local_, owners}));
    group(Verb::kAllGather, kOut.at(kWhole), kOut.at(kWhole), 0, owners);
  }

  void reduce() {
    const Place sums = is_root_ ? kOut : leads() ? scratch() : kOut;
    if (!call_.columns) {
      group(Verb::kReduce, kIn.at(kWhole), sums.at(kWhole), leader_of(node_));
      if (leads()) network(sums.at(kWhole), sums.at(kWhole));
      return;
    }
    const Part shard{local_, local_size(), 1};
    group(Verb::kReduceScatter, kIn.at(kWhole), sums.at(kWhole), 0, local_size());
    network(sums.at(shard), sums.at(shard));
    if (node_ == root_node_) group(Verb::kGather, sums.at(kWhole), kOut.at(kWhole), root_local_, local_size());
  }

  void broadcast() {
    const bool is_source = node_ == root_node_;
    if (!call_.columns) {
      if (leads()) network((is_root_ ? kIn : kOut).at(kWhole), kOut.at(kWhole));
      group(Verb::kBroadcast, kOut.at(kWhole), kOut.at(kWhole), leader_of(node_));
      return;
    }
    const Chunk shard = kOut.at({local_, local_size(), 1});
    if (is_source) group(Verb::kBroadcast, kIn.at(kWhole), kOut.at(kWhole), root_local_);
    network(shard, shard);
    // What the root's node has was rounded shard by shard, each by its owner.
    if (!is_source || call_.rounds) group(Verb::kAllGather, kOut.at(kWhole), kOut.at(kWhole), 0, local_size());
  }

  void reduce_scatter() {
    const Place sums = scratch();
    if (call_.columns) {
      for (std::uint32_t node = 0; node < first_.size(); ++node) {
        group(Verb::kReduceScatter, kIn.at(span_of(node)), sums.at(span_of(node)), 0, local_size());
      }
      network(sums, kOut);
      return;
    }
    group(Verb::kReduce, kIn.at(kWhole), sums.at(kWhole), 0);
    if (leads()) network(sums, sums);
    group(Verb::kScatter, sums.at(span_of(node_)), kOut.at(span_of(node_)), 0, local_size());
  }

  void all_gather() {
    if (call_.columns) {
      network(kIn, kOut);
      for (std::uint32_t node = 0; node < first_.size(); ++node) {
        group(Verb::kAllGather, kOut.at(span_of(node)), kOut.at(span_of(node)), 0, local_size());
      }
      return;
    }
    group(Verb::kGather, kIn.at(span_of(node_)), kOut.at(span_of(node_)), 0, local_size());
    if (leads()) network(kOut, kOut);
    group(Verb::kBroadcast, kOut.at(kWhole), kOut.at(kWhole), 0);
  }

  /// The own node's blocks through its group, the others directly.
  void all_to_all() {
    builder_.set_apart(!call_.in_place);
    group(Verb::kAllToAll, kIn.at(span_of(node_)), kOut.at(span_of(node_)), 0, local_size());
    const Place landing = call_.in_place ? scratch() : kOut;
    const auto rank = static_cast<std::uint32_t>(builder_.rank());
    for (std::uint32_t distance = 1; distance < ranks_; ++distance) {
      const std::uint32_t to = (rank + distance) % ranks_;
      const std::uint32_t from = (rank + ranks_ - distance) % ranks_;
      if (node_of(to) != node_) builder_.send(static_cast<std::int32_t>(to), kIn.at({to, ranks_, 1}), 3);
      if (node_of(from) != node_) builder_.recv(static_cast<std::int32_t>(from), landing.at({from, ranks_, 1}), 3);
    }
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      if (node_of(from) != node_) builder_.copy(kOut.at({from, ranks_, 1}), landing.at({from, ranks_, 1}));
    }
  }

  void gather() {
    const Place collected = is_root_ ? kOut : leads() ? scratch() : kOut;
    group(Verb::kGather, kIn.at(span_of(node_)), collected.at(span_of(node_)), leader_of(node_), local_size());
    if (leads()) network(collected, collected);
  }

  void scatter() {
    const Place received = is_root_ || !leads() ? kIn : scratch();
    if (leads()) network(received, received);
    group(Verb::kScatter, received.at(span_of(node_)), kOut.at(span_of(node_)), leader_of(node_), local_size());
  }

  Builder& builder_;
  const Algorithm& algorithm_;
  const StagedCall& call_;
  std::vector<std::uint32_t> first_;  ///< of each node: its first rank
  std::uint32_t ranks_ = 0, node_ = 0, local_ = 0, root_node_ = 0, root_local_ = 0;
  bool is_root_ = false;
};

}  // namespace

bool has_columns(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduce || kind == Collective::kBroadcast ||
         kind == Collective::kReduceScatter || kind == Collective::kAllGather;
}

Program build_staged(const Algorithm& algorithm, const StagedCall& call) {
  std::uint32_t ranks = 0;
  for (std::uint32_t size : call.sizes) ranks += size;
  Program program = build_program("node+" + std::string(algorithm.name), ranks,
                                  [&](Builder& builder) { Staging(builder, algorithm, call).run(); });
  std::int32_t next = 0;
  for (std::size_t node = 0; node < call.sizes.size(); ++node) {
    Group group{GroupKind::kNode, "node " + std::to_string(node), {}};
    for (std::uint32_t local = 0; local < call.sizes[node]; ++local) group.members.push_back(next++);
    program.groups.push_back(group);
  }
  return program;
}

Program build_staged(const Algorithm& algorithm, std::uint32_t nodes, std::uint32_t local) {
  StagedCall call;
  call.sizes.assign(nodes, local);
  call.columns = has_columns(algorithm.kind);
  return build_staged(algorithm, call);
}

}  // namespace foldcast::schedule
