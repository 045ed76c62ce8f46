#include "core/schedule/symbolic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/schedule/algorithms/stage.h"
#include "core/schedule/contributions.h"
#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

class SymbolicRun {
 public:
  SymbolicRun(const Subject& subject, bool in_place)
      : program_(subject.program),
        wiring_(subject.wiring),
        cells_(subject.cells),
        obligation_(subject.obligation),
        memory_(subject, in_place),
        contributions_(obligation_.inputs(), obligation_.reduces()) {
    for (const Schedule& schedule : program_.ranks) taken_.emplace_back(schedule.steps.size());
  }

  Result<Proof> run(const EventOrder& order) {
    for (const std::uint32_t event : order.events) {
      const StepRef where = order.step_of(event);
      FOLDCAST_RETURN_IF_ERROR(EventOrder::is_end(event) ? end(where) : start(where));
    }
    return check_outputs();
  }

 private:
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(program_.ranks.size()); }
  const Step& step_at(StepRef where) const { return program_.ranks[where.rank].steps[where.step]; }

  Status add(StepRef where, std::vector<Content>& sum, std::span<const Content> operand) {
    if (!obligation_.reduces()) return memory_.fault(where, "it reduces, which is not asked for");
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::uint32_t twice = contributions_.common_rank(sum[i], operand[i]);
      if (twice != Contributions::kNobody) {
        return memory_.fault(where, fmt::format("it adds the contribution of rank {} a second time", twice));
      }
      sum[i] = contributions_.combine(sum[i], operand[i]);
    }
    return ok_status();
  }

  /// What is sent is rounded; so is what it was sent from, but the input.
  Status send(StepRef where) {
    std::vector<Content>& contents = taken_[where.rank][where.step];
    const Chunk& source = step_at(where).a;
    FOLDCAST_RETURN_IF_ERROR(memory_.read(where, source, contents));
    if (!program_.ranks[where.rank].memory.rounds) return ok_status();
    for (Content& content : contents) content = contributions_.rounded(content);
    if (source.space == Space::kInput) return ok_status();
    return memory_.write(where, source, contents);
  }

  Status start(StepRef where) {
    const Step& step = step_at(where);
    std::vector<Content>& contents = taken_[where.rank][where.step];
    switch (step.kind) {
      case StepKind::kRecv:
        return ok_status();
      case StepKind::kSend:
        return send(where);
      case StepKind::kCopy:
        return memory_.read(where, step.a, contents);
      case StepKind::kReduce: {
        std::vector<Content> second;
        FOLDCAST_RETURN_IF_ERROR(memory_.read(where, step.a, contents));
        FOLDCAST_RETURN_IF_ERROR(memory_.read(where, step.b, second));
        return add(where, contents, second);
      }
      case StepKind::kGroup:
        return start_group(where);
    }
    return ok_status();
  }

  Status end(StepRef where) {
    const Step& step = step_at(where);
    switch (step.kind) {
      case StepKind::kSend:
        return ok_status();
      case StepKind::kRecv: {
        const auto peer = static_cast<std::uint32_t>(step.peer);
        return memory_.write(where, step.target, taken_[peer][wiring_.other[where.rank][where.step]]);
      }
      case StepKind::kReduce:
        return memory_.write(where, step.target, taken_[where.rank][where.step]);
      case StepKind::kCopy:
        return memory_.write(where, step.target, taken_[where.rank][where.step]);
      case StepKind::kGroup:
        return end_group(where);
    }
    return ok_status();
  }

  std::uint32_t member_index(StepRef where) const {
    const auto& members = program_.groups[step_at(where).group].members;
    const auto found = std::find(members.begin(), members.end(), static_cast<std::int32_t>(where.rank));
    return static_cast<std::uint32_t>(found - members.begin());
  }

  Status start_group(StepRef where) {
    const Step& step = step_at(where);
    const std::uint32_t index = member_index(where);
    const bool is_root = step.peer == static_cast<std::int32_t>(index);
    std::vector<Content>& contents = taken_[where.rank][where.step];
    switch (step.verb) {
      case Verb::kAllReduce:
      case Verb::kReduce:
      case Verb::kReduceScatter:
      case Verb::kAllToAll:
        return memory_.read(where, step.a, contents);
      case Verb::kBroadcast:
      case Verb::kScatter:
        return is_root ? memory_.read(where, step.a, contents) : ok_status();
      case Verb::kAllGather:
      case Verb::kGather:
        return index < step.owners ? memory_.read(where, part(step.a, index, step.owners), contents) : ok_status();
      case Verb::kBarrier:
      case Verb::kSend:
      case Verb::kRecv:
        break;
    }
    return ok_status();
  }

  const std::vector<Content>& taken_by(const GroupCall& call, std::size_t member) const {
    return taken_[call.members[member].rank][call.members[member].step];
  }

  /// Shard `shard` of `contents`, which are those of `whole`.
  std::span<const Content> shard_of(std::span<const Content> contents, const Chunk& whole, std::uint32_t shard,
                                    std::uint32_t owners) const {
    const Cells::Range all = cells_.of(region_of(whole));
    const Cells::Range range = cells_.of(region_of(part(whole, shard, owners)));
    return contents.subspan(range.first - all.first, range.size());
  }

  /// The engine reduces in the order of its members.
  Status reduced(const GroupCall& call, std::vector<Content>& sum) {
    sum = taken_by(call, 0);
    for (std::size_t i = 1; i < call.members.size(); ++i) {
      FOLDCAST_RETURN_IF_ERROR(add(call.members[i], sum, taken_by(call, i)));
    }
    return ok_status();
  }

  Status end_group(StepRef where) {
    const Step& step = step_at(where);
    const GroupCall& call = wiring_.calls[wiring_.other[where.rank][where.step]];
    const std::uint32_t index = member_index(where);
    const auto root = static_cast<std::size_t>(std::max(step.peer, 0));
    const auto own_shard = [&] { return part(step.target, index, step.owners); };
    std::vector<Content> sum;
    switch (step.verb) {
      case Verb::kAllReduce:
        FOLDCAST_RETURN_IF_ERROR(reduced(call, sum));
        return memory_.write(where, step.target, sum);
      case Verb::kReduce:
        if (index != root) return ok_status();
        FOLDCAST_RETURN_IF_ERROR(reduced(call, sum));
        return memory_.write(where, step.target, sum);
      case Verb::kReduceScatter:
        if (index >= step.owners) return ok_status();
        FOLDCAST_RETURN_IF_ERROR(reduced(call, sum));
        return memory_.write(where, own_shard(), shard_of(sum, step.a, index, step.owners));
      case Verb::kBroadcast:
        return memory_.write(where, step.target, taken_by(call, root));
      case Verb::kScatter: {
        const StepRef from = call.members[root];
        return memory_.write(where, own_shard(), shard_of(taken_by(call, root), step_at(from).a, index, step.owners));
      }
      case Verb::kGather:
        if (index != root) return ok_status();
        [[fallthrough]];
      case Verb::kAllGather:
        for (std::uint32_t owner = 0; owner < step.owners; ++owner) {
          FOLDCAST_RETURN_IF_ERROR(memory_.write(where, part(step.target, owner, step.owners), taken_by(call, owner)));
        }
        return ok_status();
      case Verb::kAllToAll:
        for (std::uint32_t from = 0; from < step.owners; ++from) {
          const Chunk& source = step_at(call.members[from]).a;
          FOLDCAST_RETURN_IF_ERROR(memory_.write(where, part(step.target, from, step.owners),
                                                 shard_of(taken_by(call, from), source, index, step.owners)));
        }
        return ok_status();
      case Verb::kBarrier:
      case Verb::kSend:
      case Verb::kRecv:
        break;
    }
    return ok_status();
  }

  Result<Proof> check_outputs() {
    Proof proof;
    std::vector<Content> first(cells_.count(), Contributions::kUndefined);
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const Cells::Range output = obligation_.output(cells_, rank);
      const std::span<const Content> contents = memory_.output(rank);
      for (std::uint32_t cell = output.first; cell < output.last; ++cell) {
        const Content content = contents[cell];
        if (content == Contributions::kUndefined) return memory_.output_fault(rank, cell, "nothing was written");
        FOLDCAST_RETURN_IF_ERROR(obligation_.reduces() ? check_sum(rank, cell, content)
                                                       : check_input(rank, cell, content));
        proof.keeps_order &= contributions_.in_order(content);
        if (rank == 0) first[cell] = content;
        if (!obligation_.replicates() || content == first[cell]) continue;
        return memory_.output_fault(rank, cell,
                                    obligation_.reduces() ? "operands are combined in another order than on rank 0"
                                                          : "it is not rounded as on rank 0");
      }
    }
    return proof;
  }

  Status check_sum(std::uint32_t rank, std::uint32_t cell, Content content) const {
    const std::uint32_t missing = contributions_.missing_rank(content);
    if (missing == Contributions::kNobody) return ok_status();
    return memory_.output_fault(rank, cell, fmt::format("the contribution of rank {} is missing", missing));
  }

  Status check_input(std::uint32_t rank, std::uint32_t cell, Content content) const {
    const Content expected = Contributions::input(obligation_.expected(cells_, rank, cell));
    const Content found = contributions_.exact(content);
    if (found == expected) return ok_status();
    const auto name = [&](Content input) { return obligation_.name(input - Contributions::input(0)); };
    return memory_.output_fault(rank, cell,
                                fmt::format("it is the input of {}, not of {}", name(found), name(expected)));
  }

  const Program& program_;
  const Wiring& wiring_;
  const Cells& cells_;
  const Obligation& obligation_;
  SymbolicMemory memory_;
  Contributions contributions_;
  std::vector<std::vector<std::vector<Content>>> taken_;  ///< per step: what it read when it started
};

}  // namespace

Result<Proof> run_symbolically(const Subject& subject, const EventOrder& order, bool in_place) {
  return SymbolicRun(subject, in_place).run(order);
}

}  // namespace foldcast::schedule
