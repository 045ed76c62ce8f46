#include "core/select/calibrate.h"

#include <algorithm>

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

}  // namespace

Result<LinkModel> calibrate(const hierarchy::Layout& layout, LinkModel model, const KnownLinks& known,
                            const TimedCall& timed_call) {
  if (layout.nodes.size() < 2) return model;
  Estimator estimator(layout, model);

  const std::size_t nodes = layout.nodes.size();
  const auto form = hierarchy::leading_form(layout);
  const hierarchy::Composition small{form, "recursive_doubling", 1};
  if (known.latency_us > 0) {
    model.latency_us = known.latency_us;
  } else {
    FOLDCAST_ASSIGN(const double us, least(timed_call, small, kSmallBytes, kWarmUp, kRepeats));
    FOLDCAST_ASSIGN(const auto terms, estimator.terms_of(Collective::kAllReduce, small.network, nodes));
    model.latency_us = us / terms.rounds;
  }

  const hierarchy::Composition large{form, "ring", 1};
  std::uint64_t large_bytes = kFirstLargeBytes;
  if (known.bytes_per_us > 0) {
    model.bytes_per_us = known.bytes_per_us;
    large_bytes =
        std::clamp(static_cast<std::uint64_t>(model.bytes_per_us * kLongEnoughUs), kFirstLargeBytes, kLastLargeBytes);
  } else {
    FOLDCAST_ASSIGN(const auto terms, estimator.terms_of(Collective::kAllReduce, large.network, nodes));
    for (; large_bytes < kLastLargeBytes; large_bytes *= 2) {
      FOLDCAST_ASSIGN(const double us, timed_call(large, large_bytes));
      if (us >= kLongEnoughUs) break;
    }
    FOLDCAST_ASSIGN(const double us, least(timed_call, large, large_bytes, 1, kLargeRepeats));
    const double moving = std::max(us - terms.rounds * model.latency_us, us / 4);
    model.bytes_per_us = terms.sent_bytes * static_cast<double>(large_bytes) / moving;
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
