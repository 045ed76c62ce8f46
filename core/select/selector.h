#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/collective.h"
#include "core/select/call_shape.h"
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

/// Picks a plan for a call's shape, its size by class, under the communicator's policy, from data that is equal on all
/// ranks only. Plans are kept and live as long as the selector.
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
  PathPolicy policy() const { return policy_; }
  /// Collectives that have no such plan go by price. kInvalidArgument naming what there is, when none has.
  Status force(Forced forced);
  const Forced& forced() const { return forced_; }
  /// Changes whenever the same shape may be given another plan than before.
  std::uint64_t revision() const { return revision_; }

  Result<Selection> select(const CallShape& shape);
  /// select() for a call that is made: a downgraded one is counted, and logged once on rank 0.
  Result<Selection> select_for_call(const CallShape& shape);
  Result<Choice> choose(const CallShape& shape);
  /// choose() as a table for a person; the same on every rank.
  Result<std::string> explain(const CallShape& shape);
  /// The steps of all ranks of what select() gives.
  Result<schedule::Program> program_for(const CallShape& shape);
  /// Microseconds of an all_reduce by one of the host's algorithms among so many nodes, uncut.
  Result<double> price_among(std::string_view algorithm, std::size_t members, std::uint64_t bytes);
  /// One message to or from `peer`.
  const Plan& point_to_point(std::int32_t peer, bool sends);
  /// A plan for a given composition and size, whatever the policy: what calibration runs.
  Result<const Plan*> plan_of(const hierarchy::Composition& composition, std::uint64_t bytes);

 private:
  std::string refusal(const CallShape& shape, const hierarchy::Composition& composition) const;
  bool is_forced_out(const Candidate& candidate) const;
  void apply_preferences(const CallShape& shape, Choice& choice) const;
  std::string describe_links() const;
  void forget();  ///< what was chosen
  Result<const Plan*> make(const hierarchy::Request& request, const hierarchy::Composition& composition,
                           const Pipelining& pipelining);

  const hierarchy::Layout& layout_;
  const std::int32_t rank_;
  Estimator estimator_;
  PathPolicy policy_ = PathPolicy::kAuto;
  Forced forced_;
  std::uint64_t revision_ = 0;
  std::uint64_t downgraded_calls_ = 0;
  struct Made {
    hierarchy::Request request;
    hierarchy::Composition composition;
    Plan plan;
  };
  std::vector<std::unique_ptr<Made>> plans_;
  std::unordered_map<std::uint64_t, Selection> chosen_;  ///< by key_of the shape
  std::uint64_t last_key_ = ~0ull;                       ///< calls repeat: the last one's selection is at hand
  Selection last_;
  std::map<std::pair<std::int32_t, bool>, Plan> point_to_point_;
};

/// Quarter-octave classes from 64 bytes on, so that nearly equal sizes share a plan; class 0 is everything up to 64.
std::uint32_t size_class(std::uint64_t bytes);
/// The largest size of a class: what its plan is priced for.
std::uint64_t class_bytes(std::uint32_t size_class);

}  // namespace foldcast::select
