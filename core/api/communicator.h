#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/runtime/context.h"
#include "core/select/selector.h"
#include "hierarchy/node_group.h"
#include "offload/provider.h"

namespace foldcast::api {

/// What a collective call asks for, checked: below this nothing parses, allocates by count, or throws.
struct CollectiveCall {
  Collective kind = Collective::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t count = 0;
  Datatype dtype = Datatype::kUint8;
  ReduceOp op = ReduceOp::kSum;
};

/// Where communicators come from: the composition root. Wires the layers together for all ranks of a job.
/// One thread at a time.
class WorldCommunicator {
 public:
  /// Collective. Joins the job, the node's shared memory and (where configured, by all or none) an aggregation tree,
  /// and measures the links.
  static Result<std::unique_ptr<WorldCommunicator>> create(Config config, const bootstrap::LaunchInfo& launch,
                                                           const runtime::TransportFactory& make_transport);
  ~WorldCommunicator();

  runtime::Context& context() { return *context_; }
  select::Selector& selector() { return *selector_; }

  /// Starts a call; the execution goes back with finish().
  Result<runtime::Execution*> start(const CollectiveCall& call);
  /// Blocks until finished, releases, gives the call's status.
  Status finish(runtime::Execution* execution);
  /// One pass; true when finished. The execution still goes back with finish().
  bool test(runtime::Execution* execution);

  /// Collective: the tree's state as this communicator sees it, for `explain`.
  const std::string& last_explanation() const { return explanation_; }
  void keep_explanation(std::string text) { explanation_ = std::move(text); }

 private:
  explicit WorldCommunicator(std::unique_ptr<runtime::Context> context) : context_(std::move(context)) {}
  Status join_node();
  Status join_tree(const runtime::TransportFactory& make_transport);
  Status calibrate();
  Result<double> timed_call(const hierarchy::Composition& composition, std::uint64_t bytes);
  Result<std::unique_ptr<offload::OffloadGroup>> ask_tree(const runtime::TransportFactory& make_transport);

  std::unique_ptr<runtime::Context> context_;
  std::unique_ptr<hierarchy::NodeGroup> node_group_;
  std::unique_ptr<offload::OffloadProvider> provider_;
  std::unique_ptr<offload::OffloadGroup> tree_;
  std::unique_ptr<select::Selector> selector_;
  select::LinkModel model_;
  runtime::Endpoints endpoints_;
  std::uint64_t sequence_ = 0;
  std::uint32_t timed_calls_ = 0;
  std::string explanation_;
};

/// kInvalidArgument naming what is wrong with a call's arguments: null or overlapping buffers, unknown enumerators.
Status validate(const CollectiveCall& call);

}  // namespace foldcast::api
