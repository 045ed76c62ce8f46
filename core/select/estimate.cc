#include "core/select/estimate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedule/cost.h"
#include "kernels/wire_format.h"

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
/// From so many messages in a round on, a rank has many peers at once. Measured over TCP with 8 nodes: each further
/// message of a small call costs most of a latency, and large ones take more than twice as long as their bytes
/// (incast).
constexpr double kCrowd = 1.5;
constexpr double kCrowdOverhead = 0.8;
constexpr double kIncast = 2.5;

using Form = hierarchy::Composition::Form;

/// Bytes on the wire for each byte of the call.
double wire_ratio(const CallShape& shape) {
  if (shape.wire == WireFormat::kExact) return 1;
  constexpr std::uint64_t kMany = 1u << 16;
  return static_cast<double>(kernels::wire_bytes(shape.wire, kMany)) / (kMany * sizeof(float));
}

}  // namespace

Result<Estimator::Terms> Estimator::terms_of(Collective kind, const std::string& network, std::size_t members) {
  const auto key = std::tuple(kind, network, members);
  if (auto known = terms_.find(key); known != terms_.end()) return known->second;
  const auto flat = hierarchy::Layout::uniform(static_cast<std::uint32_t>(members), 1);
  hierarchy::Request request;
  request.kind = kind;
  FOLDCAST_ASSIGN(auto program,
                  hierarchy::compose_all(flat, request, {hierarchy::Composition::Form::kFlat, network, 1}));
  FOLDCAST_ASSIGN(const auto cost, schedule::cost_of(program));
  Terms terms;
  terms.rounds = cost.rounds;
  terms.serial_bytes = cost.critical_bytes;
  terms.sent_bytes = std::max(cost.bytes_sent, cost.bytes_received);
  terms.messages = cost.messages / 2.0;
  terms.reduced_bytes = cost.critical_reduced;
  terms_.emplace(key, terms);
  return terms;
}

/// What the ranks of the largest node do for a fragment before and after the network's part of it.
void Estimator::add_node_stages(Collective kind, const hierarchy::Composition& composition, double fragment,
                                Stages& stages) const {
  double mates = 1;
  for (const auto& ranks : layout_.nodes) mates = std::max(mates, static_cast<double>(ranks.size()));
  if (mates == 1 || composition.form == Form::kFlat) return;
  const bool sharded = composition.form == Form::kShards;
  const double latency = model_.node_latency_us;
  // The owners work side by side as far as there are cores; each reads its shard of everyone's contribution.
  const double parallel = std::min<double>(composition.shards, std::max(1u, layout_.cores));
  const double fold = latency + mates * fragment / parallel / model_.node_bytes_per_us;
  const double cast = latency + fragment / model_.node_bytes_per_us;
  const double own = latency + fragment * mates / static_cast<double>(layout_.size()) / model_.node_bytes_per_us;
  const double more_calls = sharded ? latency * static_cast<double>(layout_.nodes.size() - 1) : 0;
  switch (scheduled_as(kind)) {
    case Collective::kAllReduce:
      stages.up += fold;
      stages.down += cast;
      break;
    case Collective::kReduce:
      stages.up += fold;
      stages.down += sharded ? cast : 0;
      break;
    case Collective::kBroadcast:
      stages.down += cast;
      break;
    case Collective::kReduceScatter:
      stages.up += fold + more_calls;
      stages.down += sharded ? 0 : own;
      break;
    case Collective::kAllGather:
      stages.up += sharded ? 0 : own;
      stages.down += cast + more_calls;
      break;
    case Collective::kScatter:
      stages.down += own;
      break;
    default:
      stages.up += own;
      break;
  }
}

Result<Estimator::Stages> Estimator::stages(const CallShape& shape, const hierarchy::Composition& composition,
                                            double fragment) {
  Stages result;
  add_node_stages(shape.kind, composition, fragment, result);
  if (layout_.nodes.size() == 1 && composition.form == Form::kNode) return result;
  // Sharded or not, a node's link carries the whole fragment; flat, every rank's messages.
  double mates = 1;
  for (const auto& ranks : layout_.nodes) mates = std::max(mates, static_cast<double>(ranks.size()));
  const bool flat = composition.form == Form::kFlat;
  const double ranks_on_link = flat || scheduled_as(shape.kind) == Collective::kAllToAll ? mates : 1;
  const double even_wire = ranks_on_link * fragment * wire_ratio(shape) / model_.bytes_per_us;
  const double shard_overhead = (composition.shards - 1) * kMessageOverhead * model_.latency_us;
  if (shape.kind == Collective::kSendRecv) {
    result.network_first = model_.latency_us + even_wire / mates;
    return result;
  }
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
  const bool among_ranks = flat || scheduled_as(shape.kind) == Collective::kAllToAll;
  const std::size_t members = among_ranks ? layout_.size() : layout_.nodes.size();
  FOLDCAST_ASSIGN(const Terms terms, terms_of(scheduled_as(shape.kind), composition.network, members));
  // Messages side by side do not wait for each other, but a processor makes them one by one; and what many send to one
  // at once collides at its link.
  const bool crowds = terms.messages > kCrowd * terms.rounds;
  const double more_messages = crowds ? (terms.messages - terms.rounds) * kCrowdOverhead * model_.latency_us : 0;
  const double wire = crowds ? kIncast * even_wire : even_wire;
  result.network_first = terms.rounds * (model_.latency_us + shard_overhead) + more_messages +
                         std::max(terms.serial_bytes, terms.sent_bytes) * wire +
                         terms.reduced_bytes * fragment / model_.reduce_bytes_per_us;
  result.network_next =
      std::max(terms.sent_bytes * wire, terms.messages * composition.shards * kMessageOverhead * model_.latency_us);
  return result;
}

Result<Price> Estimator::price(const CallShape& shape, const hierarchy::Composition& composition,
                               const Pipelining& forced) {
  const std::uint64_t bytes = shape.bytes(layout_.size());
  Price best;
  bool first = true;
  auto consider = [&](std::uint64_t fragment) -> Status {
    FOLDCAST_ASSIGN(const Stages one, stages(shape, composition, static_cast<double>(fragment)));
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
  const std::uint64_t whole = std::max<std::uint64_t>(bytes, 1);
  if (!hierarchy::is_divisible(shape.kind, composition)) {
    FOLDCAST_RETURN_IF_ERROR(consider(whole));
    return best;
  }
  if (forced.fragment_bytes > 0) {
    FOLDCAST_RETURN_IF_ERROR(consider(forced.fragment_bytes));
    return best;
  }
  if (whole <= kLargestFragment) FOLDCAST_RETURN_IF_ERROR(consider(whole));
  for (std::uint64_t fragment : kFragmentSizes) {
    if (fragment < whole) FOLDCAST_RETURN_IF_ERROR(consider(fragment));
  }
  return best;
}

}  // namespace foldcast::select
