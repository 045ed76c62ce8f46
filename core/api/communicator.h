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
                                                           const transports::TransportFactory& make_transport);
  ~WorldCommunicator();

  runtime::Context& context() { return *context_; }
  select::Selector& selector() { return *selector_; }

  /// Starts a call; the execution goes back with finish().
  Result<runtime::Execution*> start(const CollectiveCall& call);
  /// Blocks until finished, releases, gives the call's status.
  Status finish(runtime::Execution* execution);
  /// One pass; true when finished. The execution still goes back with finish().
  bool test(runtime::Execution* execution);

 private:
  explicit WorldCommunicator(std::unique_ptr<runtime::Context> context) : context_(std::move(context)) {}
  Status join_node();
  /// What selection needs to know of the tree; joined by all or none.
  Result<select::LinkModel> join_tree(select::PathPolicy policy, const transports::TransportFactory& make_transport);
  Status calibrate();
  Result<double> timed_call(const hierarchy::Composition& composition, std::uint64_t bytes);
  Result<std::unique_ptr<offload::OffloadGroup>> ask_tree(const transports::TransportFactory& make_transport);

  std::unique_ptr<runtime::Context> context_;
  std::unique_ptr<hierarchy::NodeGroup> node_group_;
  std::unique_ptr<offload::OffloadProvider> provider_;
  std::unique_ptr<offload::OffloadGroup> tree_;
  std::unique_ptr<select::Selector> selector_;
  runtime::Endpoints endpoints_;
  std::uint64_t sequence_ = 0;
  std::uint32_t timed_calls_ = 0;
};

/// kInvalidArgument naming what is wrong with a call's datatype, op or count.
Status validate_shape(const CollectiveCall& call);
/// As validate_shape, and of its buffers: null or overlapping ones.
Status validate(const CollectiveCall& call);

}  // namespace foldcast::api
