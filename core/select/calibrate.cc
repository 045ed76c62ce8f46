#include "core/select/calibrate.h"

#include <algorithm>
#include <vector>

namespace foldcast::select {
namespace {

constexpr std::uint64_t kSmallBytes = 8;
constexpr int kWarmUp = 2;
constexpr int kRepeats = 5;
constexpr std::uint64_t kFirstLargeBytes = 128u << 10;
constexpr std::uint64_t kLastLargeBytes = 8u << 20;
/// A shaped link lets a burst pass at once, and a busy machine hiccups: below this neither is small against the whole.
constexpr double kLongEnoughUs = 60'000;
constexpr int kLargeRepeats = 3;
/// Inside a node: more than caches between cores hold for long.
constexpr std::uint64_t kNodeBytes = 1u << 20;
/// To see whether old numbers hold.
constexpr std::uint64_t kCheckBytes = 512u << 10;
/// A tree that measures within this of the link is bound by the link; the difference is noise and must not decide.
constexpr double kSameRate = 0.8;

/// The least of a few calls: what the machine can do when nothing else interferes.
Result<double> least(const TimedCall& timed_call, const hierarchy::Composition& composition, std::uint64_t bytes,
                     int warm_up, int repeats) {
  double best = 0;
  for (int i = 0; i < warm_up + repeats; ++i) {
    FOLDCAST_ASSIGN(const double us, timed_call(composition, bytes));
    if (i == warm_up || (i > warm_up && us < best)) best = us;
  }
  return best;
}

/// Of the node groups: all nodes at once, since each call's time is the slowest rank's.
Status calibrate_nodes(const hierarchy::Layout& layout, const TimedCall& timed_call, LinkModel& model) {
  double mates = 1;
  for (const auto& ranks : layout.nodes) mates = std::max(mates, static_cast<double>(ranks.size()));
  if (mates == 1) return ok_status();
  const hierarchy::Composition node{hierarchy::Composition::Form::kNode, {}, 1};
  FOLDCAST_ASSIGN(const double small, least(timed_call, node, kSmallBytes, kWarmUp, kRepeats));
  FOLDCAST_ASSIGN(const double large, least(timed_call, node, kNodeBytes, 1, kLargeRepeats));
  // A call is a fold and a cast (see Estimator): two steps, in which a rank reads its share of all contributions and
  // then the whole result.
  model.node_latency_us = small / 2;
  const double parallel = std::min<double>(mates, std::max(1u, layout.cores));
  const double moving = std::max(large - small, large / 4);
  model.node_bytes_per_us = (mates / parallel + 1) * static_cast<double>(kNodeBytes) / moving;
  return ok_status();
}

}  // namespace

Result<bool> still_holds(const hierarchy::Layout& layout, const LinkModel& model, const TimedCall& timed_call) {
  if (layout.nodes.size() < 2) return true;
  Estimator estimator(layout, model);
  const auto form = hierarchy::leading_form(layout);
  const auto agrees = [&](const char* network, std::uint64_t bytes) -> Result<bool> {
    const hierarchy::Composition composition{form, network, 1};
    FOLDCAST_ASSIGN(const double us, least(timed_call, composition, bytes, 1, 2));
    FOLDCAST_ASSIGN(const auto price, estimator.price({.op = ReduceOp::kMax, .count = bytes}, composition));
    return us < 2 * price.us && us > price.us / 2;
  };
  FOLDCAST_ASSIGN(const bool small, agrees("recursive_doubling", kSmallBytes));
  FOLDCAST_ASSIGN(const bool large, agrees("ring", kCheckBytes));
  return small && large;
}

Result<LinkModel> calibrate(const hierarchy::Layout& layout, LinkModel model, const KnownLinks& known,
                            const TimedCall& timed_call, const Rails& rails) {
  FOLDCAST_RETURN_IF_ERROR(calibrate_nodes(layout, timed_call, model));
  if (layout.nodes.size() < 2) return model;
  Estimator estimator(layout, model);
  const auto form = hierarchy::leading_form(layout);
  const std::size_t nodes = layout.nodes.size();

  const hierarchy::Composition small{form, "recursive_doubling", 1};
  const auto measure_latency = [&]() -> Result<double> {
    if (known.latency_us > 0) return known.latency_us;
    FOLDCAST_ASSIGN(const double us, least(timed_call, small, kSmallBytes, kWarmUp, kRepeats));
    FOLDCAST_ASSIGN(const auto terms, estimator.terms_of(Collective::kAllReduce, small.network, nodes));
    return us / terms.rounds;
  };
  FOLDCAST_ASSIGN(model.latency_us, measure_latency());

  const hierarchy::Composition large{form, "ring", 1};
  std::uint64_t large_bytes = kFirstLargeBytes;
  const auto measure_rate = [&]() -> Result<double> {
    FOLDCAST_ASSIGN(const auto terms, estimator.terms_of(Collective::kAllReduce, large.network, nodes));
    for (large_bytes = kFirstLargeBytes; large_bytes < kLastLargeBytes; large_bytes *= 2) {
      FOLDCAST_ASSIGN(const double us, timed_call(large, large_bytes));
      if (us >= kLongEnoughUs) break;
    }
    FOLDCAST_ASSIGN(const double us, least(timed_call, large, large_bytes, 1, kLargeRepeats));
    const double moving = std::max(us - terms.rounds * model.latency_us, us / 4);
    return terms.sent_bytes * static_cast<double>(large_bytes) / moving;
  };

  if (rails.count > 1) {
    model.rails.assign(rails.count, known.bytes_per_us / static_cast<double>(rails.count));
    for (std::size_t rail = 0; rail < rails.count && known.bytes_per_us == 0; ++rail) {
      std::vector<double> alone(rails.count, 0);
      alone[rail] = 1;
      rails.use(alone, model.latency_us);
      FOLDCAST_ASSIGN(model.rails[rail], measure_rate());
    }
    rails.use(model.rails, model.latency_us);
    // Small messages take the fastest from now on.
    FOLDCAST_ASSIGN(model.latency_us, measure_latency());
  }
  if (known.bytes_per_us > 0) {
    model.bytes_per_us = known.bytes_per_us;
    large_bytes =
        std::clamp(static_cast<std::uint64_t>(model.bytes_per_us * kLongEnoughUs), kFirstLargeBytes, kLastLargeBytes);
  } else {
    FOLDCAST_ASSIGN(model.bytes_per_us, measure_rate());
  }

  if (model.tree) {
    const hierarchy::Composition tree{form, hierarchy::Composition::kTree, 1};
    FOLDCAST_ASSIGN(model.tree_latency_us, least(timed_call, tree, kSmallBytes, kWarmUp, kRepeats));
    // As long on the wire as the ring's call was: that sent more than once the payload.
    FOLDCAST_ASSIGN(const auto ring, estimator.terms_of(Collective::kAllReduce, large.network, nodes));
    const auto tree_bytes = std::max<std::uint64_t>(
        large_bytes, static_cast<std::uint64_t>(static_cast<double>(large_bytes) * ring.sent_bytes));
    FOLDCAST_ASSIGN(const double us, least(timed_call, tree, tree_bytes, 1, kLargeRepeats));
    const double piece = std::min(static_cast<double>(tree_bytes), static_cast<double>(model.tree_caps.fragment_bytes));
    const double fill = (2.0 * std::max(1u, model.tree_caps.depth) - 1) * piece / model.bytes_per_us;
    const double moving = std::max(us - model.tree_latency_us - fill, us / 4);
    model.tree_bytes_per_us = static_cast<double>(tree_bytes) / moving;
    if (model.tree_bytes_per_us >= kSameRate * model.bytes_per_us) model.tree_bytes_per_us = model.bytes_per_us;
  }
  return model;
}

}  // namespace foldcast::select
