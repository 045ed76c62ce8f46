#include "core/select/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/log.h"
#include "core/schedule/algorithms/all_reduce.h"

namespace foldcast::select {
namespace {

/// A tree must be cheaper by this much before it is taken: below that the price is not sharper than its inputs, and the
/// host path has nobody else to depend on.
constexpr double kWorthwhile = 0.97;

std::string rate(double bytes_per_us) { return fmt::format("{:.2f} Gbit/s", bytes_per_us * 8 / 1000); }

std::string size_text(std::uint64_t bytes) {
  if (bytes >= (1u << 20) && bytes % (1u << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1024 && bytes % 1024 == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.3f} s", us / 1e6);
  if (us >= 1000) return fmt::format("{:.2f} ms", us / 1000);
  return fmt::format("{:.1f} us", us);
}

Path path_of(const hierarchy::Layout& layout, const hierarchy::Composition& composition) {
  return layout.nodes.size() > 1 && composition.offloaded() ? Path::kOffload : Path::kHost;
}

/// ": the reason" of the first offloaded candidate that was refused.
std::string first_refusal(const std::vector<Candidate>& candidates) {
  for (const auto& candidate : candidates) {
    if (candidate.path == Path::kOffload && !candidate.refusal.empty()) return ": " + candidate.refusal;
  }
  return {};
}

bool names_a_network(std::string_view plan) {
  return plan == hierarchy::Composition::kTree || schedule::find_all_reduce(plan).ok();
}

}  // namespace

std::uint32_t size_class(std::uint64_t bytes) {
  if (bytes <= 64) return 0;
  const auto octave = static_cast<std::uint32_t>(std::bit_width(bytes - 1)) - 1;  // 2^octave < bytes <= 2^(octave+1)
  const std::uint64_t base = std::uint64_t{1} << octave;
  const auto quarter = static_cast<std::uint32_t>((bytes - 1 - base) / (base / 4));
  return (octave - 6) * 4 + quarter + 1;
}

std::uint64_t class_bytes(std::uint32_t size_class) {
  if (size_class == 0) return 64;
  const std::uint32_t octave = (size_class - 1) / 4 + 6;
  const std::uint64_t base = std::uint64_t{1} << octave;
  return base + ((size_class - 1) % 4 + 1) * (base / 4);
}

Result<PathPolicy> path_policy_from_string(std::string_view name) {
  if (name == "auto") return PathPolicy::kAuto;
  if (name == "offload") return PathPolicy::kOffload;
  if (name == "host") return PathPolicy::kHost;
  return invalid_argument(fmt::format("unknown path \"{}\": use auto, offload or host", name));
}

std::string_view to_string(PathPolicy policy) {
  switch (policy) {
    case PathPolicy::kAuto:
      return "auto";
    case PathPolicy::kOffload:
      return "offload";
    case PathPolicy::kHost:
      return "host";
  }
  return "unknown";
}

Selector::Selector(const hierarchy::Layout& layout, std::int32_t rank, LinkModel model)
    : layout_(layout), rank_(rank), estimator_(layout, std::move(model)) {}

void Selector::set_model(LinkModel model) {
  estimator_.set_model(std::move(model));
  chosen_.clear();
}

void Selector::set_policy(PathPolicy policy) {
  policy_ = policy;
  chosen_.clear();
}

Status Selector::force(Forced forced) {
  const auto all = hierarchy::compositions_of(layout_);
  const bool known =
      forced.plan.empty() || std::any_of(all.begin(), all.end(), [&](const auto& composition) {
        return composition.network == forced.plan || hierarchy::name_of(layout_, composition) == forced.plan;
      });
  // One node has one plan, which is right for every name of a way between nodes.
  if (!known && !(layout_.nodes.size() == 1 && names_a_network(forced.plan))) {
    std::string names;
    for (const auto& composition : all) names += (names.empty() ? "" : ", ") + hierarchy::name_of(layout_, composition);
    return invalid_argument(fmt::format("unknown plan \"{}\": this layout has {}", forced.plan, names));
  }
  forced_ = std::move(forced);
  chosen_.clear();
  return ok_status();
}

std::string Selector::refusal(const hierarchy::Composition& composition, Datatype dtype, ReduceOp op) const {
  if (!composition.offloaded()) return {};
  if (!model().tree) return model().tree_refusal.empty() ? "no tree was joined" : model().tree_refusal;
  if (!model().tree_caps.supports(dtype, op)) {
    return fmt::format("the tree does not reduce {} of {}", to_string(op), to_string(dtype));
  }
  if (policy_ == PathPolicy::kHost) return "the path policy is host";
  return {};
}

bool Selector::is_forced_out(const Candidate& candidate) const {
  return !forced_.plan.empty() && layout_.nodes.size() > 1 && candidate.name != forced_.plan &&
         candidate.composition.network != forced_.plan;
}

Result<Choice> Selector::choose(std::uint64_t bytes, Datatype dtype, ReduceOp op) {
  const std::uint64_t priced = class_bytes(size_class(bytes));
  Choice choice;
  for (const auto& composition : hierarchy::compositions_of(layout_)) {
    Candidate candidate;
    candidate.composition = composition;
    candidate.name = hierarchy::name_of(layout_, composition);
    candidate.path = path_of(layout_, composition);
    candidate.refusal = refusal(composition, dtype, op);
    if (candidate.refusal.empty()) {
      FOLDCAST_ASSIGN(candidate.price, estimator_.price(composition, priced, forced_.pipelining));
    }
    choice.candidates.push_back(std::move(candidate));
  }
  auto& all = choice.candidates;
  const auto usable = [](const Candidate& c) { return c.refusal.empty(); };
  // A preference that nothing usable meets is dropped, not obeyed into failure: the call must run.
  const auto prefer = [&](const auto& wanted, const std::string& reason) {
    const bool any = std::any_of(all.begin(), all.end(), [&](const auto& c) { return usable(c) && wanted(c); });
    if (!any) return false;
    for (auto& c : all) {
      if (usable(c) && !wanted(c)) c.refusal = reason;
    }
    return true;
  };
  if (!forced_.plan.empty()) {
    const bool met = prefer([&](const Candidate& c) { return !is_forced_out(c); },
                            fmt::format("the plan {} is forced", forced_.plan));
    if (!met) choice.downgrade = fmt::format("the plan {}", forced_.plan);
  }
  if (policy_ == PathPolicy::kOffload && layout_.nodes.size() > 1) {
    const bool met = prefer([](const Candidate& c) { return c.path == Path::kOffload; }, "the path policy is offload");
    if (!met) choice.downgrade = "offload";
  }
  if (!choice.downgrade.empty()) choice.downgrade += " was asked for and cannot be had" + first_refusal(all);
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    if (usable(a) != usable(b)) return usable(a);
    const auto weight = [](const Candidate& c) {
      return c.path == Path::kOffload ? c.price.us / kWorthwhile : c.price.us;
    };
    return weight(a) < weight(b);
  });
  if (all.empty() || !usable(all.front())) {
    return unsupported(fmt::format("no plan can reduce {} of {} here", to_string(op), to_string(dtype)));
  }
  return choice;
}

Result<const Plan*> Selector::make(const hierarchy::Composition& composition, const Pipelining& pipelining) {
  const PlanKey key{composition.network, composition.shards, pipelining.fragment_bytes, pipelining.depth};
  auto& plan = plans_[key];
  if (!plan) {
    FOLDCAST_ASSIGN(auto composed, hierarchy::compose(layout_, composition, rank_));
    plan = std::make_unique<Plan>();
    plan->name = hierarchy::name_of(layout_, composition);
    plan->path = path_of(layout_, composition);
    plan->pipelining = pipelining;
    plan->set_schedule(std::move(composed));
  }
  return static_cast<const Plan*>(plan.get());
}

Result<const Plan*> Selector::plan_of(const hierarchy::Composition& composition, std::uint64_t bytes) {
  return make(composition, {std::max<std::uint64_t>(bytes, 1), 1});
}

Result<Selection> Selector::select(std::uint64_t count, Datatype dtype, ReduceOp op) {
  const std::uint64_t bytes = count * size_of(dtype);
  const ShapeKey shape{size_class(bytes), dtype, op};
  if (auto known = chosen_.find(shape); known != chosen_.end()) return known->second;
  FOLDCAST_ASSIGN(const auto choice, choose(bytes, dtype, op));
  const Candidate& best = choice.candidates.front();
  Selection selection;
  FOLDCAST_ASSIGN(selection.plan, make(best.composition, best.price.pipelining));
  selection.price_us = best.price.us;
  selection.downgraded = !choice.downgrade.empty();
  chosen_[shape] = selection;
  return selection;
}

Result<Selection> Selector::select_for_call(std::uint64_t count, Datatype dtype, ReduceOp op) {
  FOLDCAST_ASSIGN(const auto selection, select(count, dtype, op));
  if (selection.downgraded && downgraded_calls_++ == 0 && rank_ == 0) {
    FOLDCAST_ASSIGN(const auto choice, choose(count * size_of(dtype), dtype, op));
    log().warn("{}", choice.downgrade);
  }
  return selection;
}

Result<schedule::Program> Selector::program_for(std::uint64_t count, Datatype dtype, ReduceOp op) {
  FOLDCAST_ASSIGN(const auto choice, choose(count * size_of(dtype), dtype, op));
  return hierarchy::compose_all(layout_, choice.candidates.front().composition);
}

Result<std::string> Selector::explain(std::uint64_t count, Datatype dtype, ReduceOp op) {
  const std::uint64_t bytes = count * size_of(dtype);
  FOLDCAST_ASSIGN(const auto choice, choose(bytes, dtype, op));
  const LinkModel& m = model();
  const Candidate& best = choice.candidates.front();
  std::string text =
      fmt::format("all_reduce of {} ({} x {}, {}) over {} ranks on {} nodes, path policy {}\n", size_text(bytes), count,
                  to_string(dtype), to_string(op), layout_.size(), layout_.nodes.size(), to_string(policy_));
  if (layout_.nodes.size() > 1) {
    text += fmt::format("links: {:.1f} us a message, {} a node\n", m.latency_us, rate(m.bytes_per_us));
    text += m.tree ? fmt::format("tree: {}; {:.1f} us a call, {} a node\n", m.tree_description, m.tree_latency_us,
                                 rate(m.tree_bytes_per_us))
                   : fmt::format("tree: none ({})\n", m.tree_refusal);
  }
  text += fmt::format("chosen: {}, path {}, {} in fragments of {}, {} in flight\n", best.name, to_string(best.path),
                      time_text(best.price.us),
                      size_text(std::min(best.price.pipelining.fragment_bytes, std::max<std::uint64_t>(bytes, 1))),
                      best.price.pipelining.depth);
  if (!choice.downgrade.empty())
    text += fmt::format("downgraded: {} ({} calls so far)\n", choice.downgrade, downgraded_calls_);
  text += fmt::format("{:<28} {:<8} {:>12}  {}\n", "candidate", "path", "price", "verdict");
  for (const auto& candidate : choice.candidates) {
    const bool chosen = &candidate == &choice.candidates.front();
    const bool priced = candidate.price.us > 0;
    std::string verdict = candidate.refusal;
    if (chosen) verdict = "chosen";
    if (verdict.empty()) {
      verdict = candidate.price.us < best.price.us
                    ? "cheaper by too little to depend on the tree"
                    : fmt::format("dearer: {:.2f} x", candidate.price.us / best.price.us);
    }
    text += fmt::format("{:<28} {:<8} {:>12}  {}\n", candidate.name, to_string(candidate.path),
                        priced ? time_text(candidate.price.us) : "-", verdict);
  }
  return text;
}

}  // namespace foldcast::select
