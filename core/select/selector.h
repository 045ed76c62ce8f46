#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/collective.h"
#include "core/select/plan.h"

namespace foldcast::select {

/// What a communicator allows.
enum class PathPolicy : std::uint8_t { kAuto, kOffload, kHost };
Result<PathPolicy> path_policy_from_string(std::string_view name);
std::string_view to_string(PathPolicy policy);

/// A composition with its price, or why it was not to be had.
struct Candidate {
  hierarchy::Composition composition;
  std::string name;
  Path path = Path::kHost;
  Price price;
  std::string refusal;  ///< empty: it could run
};

/// The candidates for one shape, the chosen one first, then by price, then the refused.
struct Choice {
  std::vector<Candidate> candidates;
  std::string downgrade;  ///< why the offload or the plan that was asked for cannot be had; empty: it can
};

/// What one call runs as.
struct Selection {
  const Plan* plan = nullptr;
  double price_us = 0;
  bool downgraded = false;  ///< see Choice
};

/// Picks a plan for (size class, dtype, op) under the communicator's policy, from data that is equal on all ranks only.
/// Plans are kept and live as long as the selector.
class Selector {
 public:
  struct Forced {
    std::string plan;                ///< network name or full plan name; empty: by price
    Pipelining pipelining = {0, 0};  ///< 0: the plan's own
  };
  Selector(const hierarchy::Layout& layout, std::int32_t rank, LinkModel model);

  void set_model(LinkModel model);
  const LinkModel& model() const { return estimator_.model(); }
  void set_policy(PathPolicy policy);
  /// kInvalidArgument naming what there is, when no composition of the layout has that name.
  Status force(Forced forced);
  const Forced& forced() const { return forced_; }

  Result<Selection> select(std::uint64_t count, Datatype dtype, ReduceOp op);
  /// select() for a call that is made: a downgraded one is counted, and logged once on rank 0.
  Result<Selection> select_for_call(std::uint64_t count, Datatype dtype, ReduceOp op);
  Result<Choice> choose(std::uint64_t bytes, Datatype dtype, ReduceOp op);
  /// choose() as a table for a person; the same on every rank.
  Result<std::string> explain(std::uint64_t count, Datatype dtype, ReduceOp op);
  /// The steps of all ranks of what select() gives.
  Result<schedule::Program> program_for(std::uint64_t count, Datatype dtype, ReduceOp op);
  /// A plan for a given composition and size, whatever the policy: what calibration runs.
  Result<const Plan*> plan_of(const hierarchy::Composition& composition, std::uint64_t bytes);

 private:
  std::string refusal(const hierarchy::Composition& composition, Datatype dtype, ReduceOp op) const;
  bool is_forced_out(const Candidate& candidate) const;
  Result<const Plan*> make(const hierarchy::Composition& composition, const Pipelining& pipelining);

  const hierarchy::Layout& layout_;
  const std::int32_t rank_;
  Estimator estimator_;
  PathPolicy policy_ = PathPolicy::kAuto;
  Forced forced_;
  std::uint64_t downgraded_calls_ = 0;
  using PlanKey = std::tuple<std::string, std::uint32_t, std::uint64_t, std::uint32_t>;
  std::map<PlanKey, std::unique_ptr<Plan>> plans_;
  using ShapeKey = std::tuple<std::uint32_t, Datatype, ReduceOp>;
  std::map<ShapeKey, Selection> chosen_;
};

/// Quarter-octave classes from 64 bytes on, so that nearly equal sizes share a plan; class 0 is everything up to 64.
std::uint32_t size_class(std::uint64_t bytes);
/// The largest size of a class: what its plan is priced for.
std::uint64_t class_bytes(std::uint32_t size_class);

}  // namespace foldcast::select
