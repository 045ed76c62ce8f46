#include "core/select/estimate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedule/cost.h"

namespace foldcast::select {
namespace {

constexpr std::array<std::uint64_t, 7> kFragmentSizes = {64u << 10, 128u << 10, 256u << 10, 512u << 10,
                                                         1u << 20,  2u << 20,   4u << 20};
/// Enough to keep a three-stage pipeline full while one fragment is being handed over.
constexpr std::uint32_t kDepth = 4;
/// The largest call that may run as one fragment: bounds scratch memory and the time between signs of progress.
constexpr std::uint64_t kLargestFragment = 4u << 20;
/// What each further message costs the ranks' processors, as a part of a message's whole latency.
constexpr double kMessageOverhead = 0.3;

}  // namespace

Result<Estimator::Terms> Estimator::terms_of(const std::string& network) {
  if (auto known = terms_.find(network); known != terms_.end()) return known->second;
  hierarchy::Layout flat = hierarchy::Layout::uniform(static_cast<std::uint32_t>(layout_.nodes.size()), 1);
  FOLDCAST_ASSIGN(auto program, hierarchy::compose_all(flat, {network, 1}));
  FOLDCAST_ASSIGN(const auto cost, schedule::cost_of(program));
  Terms terms;
  terms.rounds = cost.rounds;
  terms.serial_bytes = cost.critical_bytes;
  terms.sent_bytes = std::max(cost.bytes_sent, cost.bytes_received);
  terms.messages = cost.messages / 2.0;
  terms.reduced_bytes = cost.critical_reduced;
  terms_.emplace(network, terms);
  return terms;
}

Result<Estimator::Stages> Estimator::stages(const hierarchy::Composition& composition, double fragment) {
  Stages result;
  double largest_node = 1;
  for (const auto& ranks : layout_.nodes) largest_node = std::max(largest_node, static_cast<double>(ranks.size()));
  if (largest_node > 1) {
    // The owners work side by side as far as there are cores; each reads its shard of everyone's contribution.
    const double parallel = std::min<double>(composition.shards, std::max(1u, layout_.cores));
    result.up = model_.node_latency_us + largest_node * fragment / parallel / model_.node_bytes_per_us;
    result.down = model_.node_latency_us + fragment / model_.node_bytes_per_us;
  }
  if (layout_.nodes.size() == 1) {
    result.network_first = result.network_next = 0;
    return result;
  }
  // Sharded or not, a node's link carries the whole fragment.
  const double wire = fragment / model_.bytes_per_us;
  const double shard_overhead = (composition.shards - 1) * kMessageOverhead * model_.latency_us;
  if (composition.offloaded()) {
    const double rate = std::min(model_.tree_bytes_per_us, model_.bytes_per_us);
    // Store and forward of the tree's own fragments: up and down again through every level, the first hop is the
    // payload.
    const double piece = std::min(fragment, static_cast<double>(model_.tree_caps.fragment_bytes));
    const double hops = 2.0 * std::max(1u, model_.tree_caps.depth) - 1;
    result.network_first =
        model_.tree_latency_us + shard_overhead + fragment / rate + hops * piece / model_.bytes_per_us;
    result.network_next = fragment / rate;
    return result;
  }
  FOLDCAST_ASSIGN(const Terms terms, terms_of(composition.network));
  result.network_first = terms.rounds * (model_.latency_us + shard_overhead) +
                         std::max(terms.serial_bytes, terms.sent_bytes) * wire +
                         terms.reduced_bytes * fragment / model_.reduce_bytes_per_us;
  result.network_next =
      std::max(terms.sent_bytes * wire, terms.messages * composition.shards * kMessageOverhead * model_.latency_us);
  return result;
}

Result<Price> Estimator::price(const hierarchy::Composition& composition, std::uint64_t bytes,
                               const Pipelining& forced) {
  Price best;
  bool first = true;
  auto consider = [&](std::uint64_t fragment) -> Status {
    FOLDCAST_ASSIGN(const Stages one, stages(composition, static_cast<double>(fragment)));
    const double fragments = std::max(1.0, std::ceil(static_cast<double>(bytes) / static_cast<double>(fragment)));
    const double slowest = std::max({one.up, one.network_next, one.down});
    const double us = one.up + one.network_first + one.down + (fragments - 1) * slowest;
    if (first || us < best.us) {
      const std::uint32_t depth = forced.depth > 0 ? forced.depth : kDepth;
      best = {us, {fragment, static_cast<std::uint32_t>(std::min<double>(fragments, depth))}};
      first = false;
    }
    return ok_status();
  };
  if (forced.fragment_bytes > 0) {
    FOLDCAST_RETURN_IF_ERROR(consider(forced.fragment_bytes));
    return best;
  }
  const std::uint64_t whole = std::max<std::uint64_t>(bytes, 1);
  if (whole <= kLargestFragment) FOLDCAST_RETURN_IF_ERROR(consider(whole));
  for (std::uint64_t fragment : kFragmentSizes) {
    if (fragment < whole) FOLDCAST_RETURN_IF_ERROR(consider(fragment));
  }
  return best;
}

}  // namespace foldcast::select
