#include "core/select/selector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <set>

#include "core/base/log.h"
#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/builder.h"
#include "kernels/wire_format.h"

namespace foldcast::select {
namespace {

/// A tree must be cheaper by this much before it is taken: below that the price is not sharper than its inputs, and the
/// host path has nobody else to depend on.
constexpr double kWorthwhile = 0.97;
/// No shape has it.
constexpr std::uint64_t kNoKey = ~0ull;

using Form = hierarchy::Composition::Form;

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
  if (plan == hierarchy::Composition::kTree) return true;
  for (std::size_t kind = 1; kind < kCollectiveCount; ++kind) {
    if (schedule::find_algorithm(scheduled_as(static_cast<Collective>(kind)), plan).ok()) return true;
  }
  return false;
}

/// A shape as a number: two shapes with the same one run as the same plan.
std::uint64_t key_of(const CallShape& shape, std::size_t size) {
  static_assert(kCollectiveCount <= 16 && kDatatypeCount <= 16 && kWireFormatCount <= 4);
  return static_cast<std::uint64_t>(shape.kind) | static_cast<std::uint64_t>(shape.dtype) << 4 |
         static_cast<std::uint64_t>(shape.op) << 8 | static_cast<std::uint64_t>(shape.wire) << 16 |
         std::uint64_t{shape.in_place} << 18 | std::uint64_t{shape.in_order} << 19 |
         std::uint64_t{size_class(shape.bytes(size))} << 20 | static_cast<std::uint64_t>(shape.root) << 32;
}

hierarchy::Request request_of(const CallShape& shape) {
  return {shape.kind, has_root(shape.kind) ? shape.root : 0, shape.in_place, shape.wire != WireFormat::kExact};
}

/// Whether all ranks end with the same bits when messages are rounded. Where several ranks add the same values, each
/// would take its own unrounded; and where parts are sent anew as larger ones, formats with common scales are not
/// idempotent.
bool suits(const CallShape& shape, const schedule::Algorithm& algorithm) {
  if (shape.wire == WireFormat::kExact || shape.kind != Collective::kAllReduce) return true;
  if (algorithm.name == "recursive_doubling" || algorithm.name == "gather_all") return false;
  return kernels::wire_granule(shape.wire) == 1 || algorithm.name != "halving_doubling";
}

std::string title_of(const CallShape& shape, std::uint64_t bytes) {
  std::string text =
      fmt::format("{} of {} ({} x {}", to_string(shape.kind), size_text(bytes), shape.count, to_string(shape.dtype));
  if (reduces(shape.kind)) text += fmt::format(", {}", to_string(shape.op));
  if (has_root(shape.kind)) text += fmt::format(", root {}", shape.root);
  if (shape.wire != WireFormat::kExact) text += fmt::format(", sent as {}", to_string(shape.wire));
  return text + ")";
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
  forget();
}

void Selector::set_policy(PathPolicy policy) {
  policy_ = policy;
  forget();
}

Status Selector::force(Forced forced) {
  std::set<std::string> names;
  bool known = forced.plan.empty() || names_a_network(forced.plan);
  for (std::size_t kind = 1; kind < kCollectiveCount; ++kind) {
    for (const auto& composition : hierarchy::compositions_of(layout_, static_cast<Collective>(kind))) {
      names.insert(hierarchy::name_of(layout_, composition));
      known |= hierarchy::name_of(layout_, composition) == forced.plan;
    }
  }
  if (!known) {
    return invalid_argument(
        fmt::format("unknown plan \"{}\": this layout has {}", forced.plan, fmt::join(names, ", ")));
  }
  forced_ = std::move(forced);
  forget();
  return ok_status();
}

std::string Selector::refusal(const CallShape& shape, const hierarchy::Composition& composition) const {
  if (composition.offloaded()) {
    if (!model().tree) return model().tree_refusal.empty() ? "no tree was joined" : model().tree_refusal;
    if (is_user(shape.op)) return "the tree does not know the application's own ops";
    if (!model().tree_caps.supports(shape.dtype, shape.op)) {
      return fmt::format("the tree does not reduce {} of {}", to_string(shape.op), to_string(shape.dtype));
    }
    if (policy_ == PathPolicy::kHost) return "the path policy is host";
    return {};
  }
  if (composition.form == Form::kNode) return {};
  const auto algorithm = schedule::find_algorithm(scheduled_as(shape.kind), composition.network);
  if (!algorithm.ok()) return algorithm.status().message();
  if (reduces(shape.kind) && shape.in_order) {
    const bool by_node = composition.form != Form::kFlat && !hierarchy::is_consecutive(layout_);
    if (!algorithm->keeps_order || by_node) return "it does not keep the order of ranks, which the op needs";
  }
  if (!suits(shape, *algorithm)) return "its ranks would round differently in this wire format";
  return {};
}

bool Selector::is_forced_out(const Candidate& candidate) const {
  return candidate.name != forced_.plan && candidate.composition.network != forced_.plan;
}

/// A preference that nothing usable meets is dropped, not obeyed into failure: the call must run.
void Selector::apply_preferences(const CallShape& shape, Choice& choice) const {
  auto& all = choice.candidates;
  const auto usable = [](const Candidate& c) { return c.refusal.empty(); };
  const auto prefer = [&](const auto& wanted, const std::string& reason) {
    const bool any = std::any_of(all.begin(), all.end(), [&](const auto& c) { return usable(c) && wanted(c); });
    if (!any) return false;
    for (auto& c : all) {
      if (usable(c) && !wanted(c)) c.refusal = reason;
    }
    return true;
  };
  const auto is_forced = [&](const Candidate& c) { return !is_forced_out(c); };
  // Names of other collectives' plans, and on one node of ways between nodes, force nothing.
  if (!forced_.plan.empty() && std::any_of(all.begin(), all.end(), is_forced)) {
    if (!prefer(is_forced, fmt::format("the plan {} is forced", forced_.plan))) {
      choice.downgrade = fmt::format("the plan {}", forced_.plan);
    }
  }
  if (policy_ == PathPolicy::kOffload && layout_.nodes.size() > 1 && shape.kind != Collective::kSendRecv) {
    const bool met = prefer([](const Candidate& c) { return c.path == Path::kOffload; }, "the path policy is offload");
    if (!met) choice.downgrade = "offload";
  }
  if (choice.downgrade.empty()) return;
  choice.downgrade += " was asked for and cannot be had";
  const bool has_form = std::any_of(all.begin(), all.end(), [](const auto& c) { return c.path == Path::kOffload; });
  choice.downgrade += has_form ? first_refusal(all) : fmt::format(": {} has no offloaded form", to_string(shape.kind));
}

Result<Choice> Selector::choose(const CallShape& shape) {
  // The largest call of the class, whichever of its calls came first: its plan is every rank's.
  CallShape priced = shape;
  priced.count = 1;
  const std::uint64_t most = class_bytes(size_class(shape.bytes(layout_.size())));
  const std::uint64_t one = priced.bytes(layout_.size());
  priced.count = std::max<std::uint64_t>(1, (most + one - 1) / one);
  Choice choice;
  for (const auto& composition : hierarchy::compositions_of(layout_, shape.kind)) {
    Candidate candidate;
    candidate.composition = composition;
    candidate.name = hierarchy::name_of(layout_, composition);
    candidate.path = path_of(layout_, composition);
    candidate.refusal = refusal(shape, composition);
    if (candidate.refusal.empty()) {
      FOLDCAST_ASSIGN(candidate.price, estimator_.price(priced, composition, forced_.pipelining));
    }
    choice.candidates.push_back(std::move(candidate));
  }
  auto& all = choice.candidates;
  apply_preferences(shape, choice);
  const auto usable = [](const Candidate& c) { return c.refusal.empty(); };
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    if (usable(a) != usable(b)) return usable(a);
    const auto weight = [](const Candidate& c) {
      return c.path == Path::kOffload ? c.price.us / kWorthwhile : c.price.us;
    };
    return weight(a) < weight(b);
  });
  if (all.empty() || !usable(all.front())) {
    return unsupported(fmt::format("no plan can run {} here{}", title_of(shape, shape.bytes(layout_.size())),
                                   all.empty() ? "" : ": " + all.front().refusal));
  }
  return choice;
}

Result<const Plan*> Selector::make(const hierarchy::Request& request, const hierarchy::Composition& composition,
                                   const Pipelining& pipelining) {
  for (const auto& known : plans_) {
    if (known->request == request && known->composition == composition && known->plan.pipelining == pipelining) {
      return static_cast<const Plan*>(&known->plan);
    }
  }
  FOLDCAST_ASSIGN(auto composed, hierarchy::compose(layout_, request, composition, rank_));
  auto made = std::make_unique<Made>();
  made->request = request;
  made->composition = composition;
  made->plan.name = hierarchy::name_of(layout_, composition);
  made->plan.path = path_of(layout_, composition);
  made->plan.pipelining = pipelining;
  made->plan.divisible = hierarchy::is_divisible(request.kind, composition);
  made->plan.set_schedule(std::move(composed));
  plans_.push_back(std::move(made));
  return static_cast<const Plan*>(&plans_.back()->plan);
}

void Selector::forget() {
  ++revision_;
  chosen_.clear();
  last_key_ = kNoKey;
}

Result<const Plan*> Selector::plan_of(const hierarchy::Composition& composition, std::uint64_t bytes) {
  return make({}, composition, {std::max<std::uint64_t>(bytes, 1), 1});
}

const Plan& Selector::point_to_point(std::int32_t peer, bool sends) {
  auto [entry, is_new] = point_to_point_.try_emplace({peer, sends});
  if (is_new) entry->second = message_plan(rank_, peer, sends);
  return entry->second;
}

Result<double> Selector::price_among(std::string_view algorithm, std::size_t members, std::uint64_t bytes) {
  FOLDCAST_ASSIGN(const auto terms, estimator_.terms_of(Collective::kAllReduce, std::string(algorithm), members));
  return terms.rounds * model().latency_us + terms.serial_bytes * static_cast<double>(bytes) / model().bytes_per_us;
}

Result<Selection> Selector::select(const CallShape& shape) {
  const std::uint64_t key = key_of(shape, layout_.size());
  if (key == last_key_) return last_;
  auto known = chosen_.find(key);
  if (known == chosen_.end()) {
    FOLDCAST_ASSIGN(const auto choice, choose(shape));
    const Candidate& best = choice.candidates.front();
    Selection selection;
    if (shape.kind == Collective::kSendRecv) {
      selection.plan = &point_to_point(shape.root, true);
    } else {
      FOLDCAST_ASSIGN(selection.plan, make(request_of(shape), best.composition, best.price.pipelining));
    }
    selection.price_us = best.price.us;
    selection.downgraded = !choice.downgrade.empty();
    known = chosen_.emplace(key, selection).first;
  }
  last_key_ = key;
  last_ = known->second;
  return last_;
}

Result<Selection> Selector::select_for_call(const CallShape& shape) {
  FOLDCAST_ASSIGN(const auto selection, select(shape));
  if (selection.downgraded && downgraded_calls_++ == 0 && rank_ == 0) {
    FOLDCAST_ASSIGN(const auto choice, choose(shape));
    log().warn("{}", choice.downgrade);
  }
  return selection;
}

Result<schedule::Program> Selector::program_for(const CallShape& shape) {
  if (shape.kind == Collective::kSendRecv) return unsupported("send_recv has one step: a message from rank to rank");
  FOLDCAST_ASSIGN(const auto choice, choose(shape));
  return hierarchy::compose_all(layout_, request_of(shape), choice.candidates.front().composition);
}

std::string Selector::describe_links() const {
  const LinkModel& m = model();
  std::string text;
  if (layout_.size() > layout_.nodes.size()) {
    text += fmt::format("nodes: {:.1f} us a step, {} a rank\n", m.node_latency_us, rate(m.node_bytes_per_us));
  }
  if (layout_.nodes.size() == 1) return text;
  text += fmt::format("links: {:.1f} us a message, {} a node", m.latency_us, rate(m.bytes_per_us));
  for (std::size_t rail = 0; rail < m.rails.size(); ++rail) {
    text += fmt::format("{}{}", rail == 0 ? " over rails of " : " and ", rate(m.rails[rail]));
  }
  text += '\n';
  text += m.tree ? fmt::format("tree: {}; {:.1f} us a call, {} a node\n", m.tree_description, m.tree_latency_us,
                               rate(m.tree_bytes_per_us))
                 : fmt::format("tree: none ({})\n", m.tree_refusal);
  return text;
}

Result<std::string> Selector::explain(const CallShape& shape) {
  const std::uint64_t bytes = shape.bytes(layout_.size());
  FOLDCAST_ASSIGN(const auto choice, choose(shape));
  const Candidate& best = choice.candidates.front();
  std::string text = fmt::format("{} over {} ranks on {} nodes, path policy {}\n", title_of(shape, bytes),
                                 layout_.size(), layout_.nodes.size(), to_string(policy_));
  text += describe_links();
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
