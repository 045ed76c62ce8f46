#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/api/operation.h"
#include "core/runtime/context.h"
#include "core/runtime/recovery.h"
#include "core/select/selector.h"
#include "hierarchy/node_group.h"

namespace foldcast::api {

/// An ordered set of the job's ranks and the calls among them. Wires the layers together; connections and memory belong
/// to the context, which all communicators of the process share and which ends with the last of them.
///
/// Every method but the constructor functions and the destructor takes the context's gate by itself. One thread at a
/// time, but for abort().
class Communicator {
 public:
  /// How a member names the ranks of its new communicator.
  static constexpr std::int32_t kNoColour = -1;

  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::int32_t rank() const { return endpoints_.rank; }
  std::int32_t size() const { return static_cast<std::int32_t>(layout_.size()); }
  const hierarchy::Layout& layout() const { return layout_; }
  runtime::Context& context() { return *context_; }
  select::Selector& selector() { return *selector_; }
  /// Taken for everything that is not a method of this class.
  runtime::Lock lock() { return runtime::Lock(context_->gate()); }

  void set_wire_format(WireFormat format) {
    wire_ = format;
    last_.plan = nullptr;
  }

  /// Collective: see foldcast.h. Null where the colour is kNoColour.
  Result<std::unique_ptr<Communicator>> split(std::int32_t colour, std::int32_t key);
  Result<std::unique_ptr<Communicator>> shrink();
  void abort();

  /// The tree's state where this rank has one and it is not the usual one; else empty.
  std::string tree_news() const;
  /// A call's shape here, for questions about plans.
  select::CallShape shape_of(const CollectiveCall& call) const;
  /// One all_reduce of bytes in place as a given composition: microseconds on this rank.
  Result<double> timed_call(const hierarchy::Composition& composition, std::byte* buffer, std::uint64_t bytes);
  void set_link_model(select::LinkModel model);

  /// Starts a call. `operation` must live, unmoved, until finish().
  Status start(const CollectiveCall& call, Operation& operation);
  /// Blocks until finished; the call's status.
  Status finish(Operation& operation);
  /// One pass; true when finished. finish() is still due.
  bool test(Operation& operation);
  /// start() and finish().
  Status run(const CollectiveCall& call);

 private:
  friend class WorldBuilder;
  Communicator(std::shared_ptr<runtime::Context> context, hierarchy::Layout layout)
      : context_(std::move(context)), layout_(std::move(layout)) {}

  /// `members`: ranks of the job, all of them ranks of `parent` if there is one. Collective over those of them that
  /// share a node; the gate is free.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<runtime::Context> context,
                                                      std::span<const std::int32_t> members, std::uint32_t number,
                                                      const Communicator* parent);
  Status join_node(std::int32_t first, const Communicator* parent);
  /// A communicator like this one over other members.
  Result<std::unique_ptr<Communicator>> descend(std::span<const std::int32_t> members, std::uint32_t number);
  /// What a prepared operation runs as.
  Result<select::Selection> plan_for(Operation& operation);
  Status launch(Operation& operation, const select::Plan& plan);
  Status finish(Operation& operation, runtime::Lock& lock);
  /// The last call once more.
  Status run_again();

  std::shared_ptr<runtime::Context> context_;
  hierarchy::Layout layout_;
  runtime::Endpoints endpoints_;
  std::unique_ptr<hierarchy::NodeGroup> node_group_;
  std::unique_ptr<select::Selector> selector_;
  std::unique_ptr<runtime::RecoveringGroup> tree_;  ///< which asks the selector
  std::uint32_t tree_topic_ = 0;
  WireFormat wire_ = WireFormat::kExact;
  /// The last blocking call, where the same call again would be bound alike: loops call with the same buffers, and
  /// working all this out anew takes as long as a small call.
  struct LastCall {
    const select::Plan* plan = nullptr;  ///< null: there is none
    std::uint64_t revision = 0;          ///< of the selector
    CollectiveCall call;
    runtime::Binding binding;
  };
  LastCall last_;
  std::uint64_t sequence_ = 0;
  std::vector<std::uint64_t> sent_, received_;  ///< point-to-point messages with each rank so far
  std::uint32_t shrinks_ = 0;
};

}  // namespace foldcast::api
