#include "core/schedule/symbolic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "core/schedule/contributions.h"
#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

class SymbolicRun {
 public:
  SymbolicRun(const Program& program, const Wiring& wiring, const Cells& cells, bool in_place)
      : program_(program), wiring_(wiring), cells_(cells), in_place_(in_place), contributions_(ranks()) {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const std::uint32_t units = 2 + program.ranks[rank].scratch_units;
      memory_.emplace_back(std::size_t{units} * cells.count(), Contributions::kUndefined);
      writer_.emplace_back(memory_.back().size(), Wiring::kNone);
      std::fill_n(memory_.back().begin(), cells.count(), contributions_.input_of(rank));
      taken_.emplace_back(program.ranks[rank].steps.size());
    }
  }

  Status run(const EventOrder& order) {
    for (std::uint32_t event : order.events) {
      const StepRef where = order.step_of(event);
      FOLDCAST_RETURN_IF_ERROR(EventOrder::is_end(event) ? end(where) : start(where));
    }
    return check_outputs();
  }

 private:
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(program_.ranks.size()); }
  const Step& step_at(StepRef where) const { return program_.ranks[where.rank].steps[where.step]; }
  std::size_t row_of(const Chunk& chunk) const {
    switch (chunk.space) {
      case Space::kInput:
        return 0;
      case Space::kOutput:
        return in_place_ ? 0 : 1;
      case Space::kScratch:
        return 2 + chunk.index / chunk.of;
    }
    return 0;
  }
  std::span<Content> view(std::uint32_t rank, const Chunk& chunk) {
    const Cells::Range range = cells_.of(region_of(chunk));
    return {&memory_[rank][row_of(chunk) * cells_.count() + range.first], range.last - range.first};
  }

  Status fault(StepRef where, std::string_view what) const {
    return internal_error(fmt::format("{}: {}{}", describe(program_, where), what, in_place_ ? " (in place)" : ""));
  }

  /// What a step reads, which must be something.
  Status read(StepRef where, const Chunk& chunk, std::vector<Content>& contents) {
    const std::span<const Content> from = view(where.rank, chunk);
    contents.assign(from.begin(), from.end());
    if (std::find(contents.begin(), contents.end(), Contributions::kUndefined) == contents.end()) return ok_status();
    return fault(where, fmt::format("it reads {}, where nothing was written", to_string(chunk)));
  }

  void write(StepRef where, const Chunk& chunk, std::span<const Content> contents) {
    const std::span<Content> to = view(where.rank, chunk);
    std::copy(contents.begin(), contents.end(), to.begin());
    const std::size_t offset = static_cast<std::size_t>(to.data() - memory_[where.rank].data());
    std::fill_n(writer_[where.rank].begin() + static_cast<std::ptrdiff_t>(offset), to.size(), where.step);
  }

  Status add(StepRef where, std::vector<Content>& sum, std::span<const Content> operand) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::uint32_t twice = contributions_.common_rank(sum[i], operand[i]);
      if (twice != Contributions::kNobody) {
        return fault(where, fmt::format("it adds the contribution of rank {} a second time", twice));
      }
      sum[i] = contributions_.combine(sum[i], operand[i]);
    }
    return ok_status();
  }

  /// The chunk of a group step that its member `index` gives or gets: its shard, if the verb has shards.
  static bool shard_of(const Step& step, const Chunk& whole, std::uint32_t index, Chunk& shard) {
    shard = whole;
    if (step.verb != Verb::kReduceScatter && step.verb != Verb::kAllGather) return true;
    if (index >= step.owners) return false;
    if (step.owners == 1) return true;
    // `whole` is a whole fragment (wire() checked it), so of scratch all that matters is the unit.
    const std::uint32_t unit = whole.index / whole.of;
    shard = {whole.space, unit * step.owners + index, step.owners, 1};
    return true;
  }

  std::uint32_t member_index(StepRef where) const {
    const auto& members = program_.groups[step_at(where).group].members;
    const auto found = std::find(members.begin(), members.end(), static_cast<std::int32_t>(where.rank));
    return static_cast<std::uint32_t>(found - members.begin());
  }

  Status start(StepRef where) {
    const Step& step = step_at(where);
    std::vector<Content>& contents = taken_[where.rank][where.step];
    switch (step.kind) {
      case StepKind::kRecv:
        return ok_status();
      case StepKind::kSend:
      case StepKind::kCopy:
        return read(where, step.a, contents);
      case StepKind::kReduce: {
        std::vector<Content> second;
        FOLDCAST_RETURN_IF_ERROR(read(where, step.a, contents));
        FOLDCAST_RETURN_IF_ERROR(read(where, step.b, second));
        return add(where, contents, second);
      }
      case StepKind::kGroup:
        break;
    }
    if (step.verb == Verb::kBarrier) return ok_status();
    const std::uint32_t index = member_index(where);
    if (step.verb == Verb::kBroadcast && step.peer != static_cast<std::int32_t>(index)) return ok_status();
    Chunk given = step.a;
    if (step.verb == Verb::kAllGather && !shard_of(step, step.a, index, given)) return ok_status();
    return read(where, given, contents);
  }

  Status end(StepRef where) {
    const Step& step = step_at(where);
    switch (step.kind) {
      case StepKind::kSend:
        return ok_status();
      case StepKind::kRecv: {
        const auto peer = static_cast<std::uint32_t>(step.peer);
        write(where, step.target, taken_[peer][wiring_.other[where.rank][where.step]]);
        return ok_status();
      }
      case StepKind::kReduce:
      case StepKind::kCopy:
        write(where, step.target, taken_[where.rank][where.step]);
        return ok_status();
      case StepKind::kGroup:
        break;
    }
    return step.verb == Verb::kBarrier ? ok_status() : end_group(where);
  }

  Status end_group(StepRef where) {
    const Step& step = step_at(where);
    const GroupCall& call = wiring_.calls[wiring_.other[where.rank][where.step]];
    const std::uint32_t index = member_index(where);
    if (step.verb == Verb::kBroadcast) {
      const StepRef root = call.members[static_cast<std::size_t>(step.peer)];
      write(where, step.target, taken_[root.rank][root.step]);
      return ok_status();
    }
    if (step.verb == Verb::kAllGather) {
      for (std::uint32_t owner = 0; owner < step.owners; ++owner) {
        Chunk shard;
        shard_of(step, step.target, owner, shard);
        const StepRef from = call.members[owner];
        write(where, shard, taken_[from.rank][from.step]);
      }
      return ok_status();
    }
    Chunk got;
    if (!shard_of(step, step.target, index, got)) return ok_status();
    // The engine reduces in the order of its members.
    std::vector<Content> sum = taken_[call.members[0].rank][call.members[0].step];
    for (std::size_t i = 1; i < call.members.size(); ++i) {
      const StepRef member = call.members[i];
      FOLDCAST_RETURN_IF_ERROR(add(member, sum, taken_[member.rank][member.step]));
    }
    const Cells::Range whole = cells_.of(region_of(step.target));
    const Cells::Range range = cells_.of(region_of(got));
    write(where, got, std::span(sum).subspan(range.first - whole.first, range.last - range.first));
    return ok_status();
  }

  Status check_outputs() {
    const Chunk output{Space::kOutput, 0, 1, 1};
    for (std::uint32_t cell = 0; cell < cells_.count(); ++cell) {
      const Content expected = view(0, output)[cell];
      for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        const Content content = view(rank, output)[cell];
        if (content == Contributions::kUndefined) return output_fault(rank, cell, "nothing was written");
        const std::uint32_t missing = contributions_.missing_rank(content);
        if (missing != Contributions::kNobody) {
          return output_fault(rank, cell, fmt::format("the contribution of rank {} is missing", missing));
        }
        if (content != expected) {
          return output_fault(rank, cell, "operands are combined in another order than on rank 0");
        }
      }
    }
    return ok_status();
  }

  Status output_fault(std::uint32_t rank, std::uint32_t cell, std::string_view what) const {
    const std::size_t row = row_of({Space::kOutput, 0, 1, 1});
    const std::uint32_t writer = writer_[rank][row * cells_.count() + cell];
    const std::string place = fmt::format("the output {}{}", cells_.name(cell), in_place_ ? " (in place)" : "");
    if (writer == Wiring::kNone)
      return internal_error(fmt::format("rank {}: no step writes {}: {}", rank, place, what));
    return internal_error(
        fmt::format("{}: it is the last to write {}: {}", describe(program_, {rank, writer}), place, what));
  }

  const Program& program_;
  const Wiring& wiring_;
  const Cells& cells_;
  bool in_place_;
  Contributions contributions_;
  std::vector<std::vector<Content>> memory_;              ///< per rank: rows of cells: input, output, scratch units
  std::vector<std::vector<std::uint32_t>> writer_;        ///< per rank and cell: the step that last wrote it
  std::vector<std::vector<std::vector<Content>>> taken_;  ///< per step: what it read when it started
};

}  // namespace

Status run_symbolically(const Program& program, const Wiring& wiring, const EventOrder& order, bool in_place) {
  const Cells cells(program);
  return SymbolicRun(program, wiring, cells, in_place).run(order);
}

}  // namespace foldcast::schedule
