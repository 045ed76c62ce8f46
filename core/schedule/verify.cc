#include "core/schedule/verify.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "core/schedule/cells.h"
#include "core/schedule/symbolic_run.h"
#include "core/schedule/wiring.h"

namespace foldcast::schedule {
namespace {

/// That a rank's dependences order every two accesses of which one writes. Then all legal orders compute the same.
class ConflictCheck {
 public:
  ConflictCheck(const Program& program, const Cells& cells) : program_(program), cells_(cells) {}

  Status run(std::uint32_t rank) {
    const Schedule& schedule = program_.ranks[rank];
    const std::size_t count = schedule.steps.size();
    const std::size_t words = (count + 63) / 64;
    std::vector<std::uint64_t> ancestors(count * words, 0);
    accesses_.clear();
    for (std::uint32_t step = 0; step < count; ++step) {
      const std::uint64_t* mine = &ancestors[step * words];
      const Footprint footprint = footprint_of(schedule.steps[step], schedule.memory);
      const std::size_t earlier_accesses = accesses_.size();
      for (std::uint8_t i = 0; i < footprint.read_count; ++i) record(footprint.reads[i], step, false);
      for (std::uint8_t i = 0; i < footprint.write_count; ++i) record(footprint.writes[i], step, true);
      for (std::size_t own = earlier_accesses; own < accesses_.size(); ++own) {
        for (std::size_t other = 0; other < earlier_accesses; ++other) {
          if (!conflict(accesses_[own], accesses_[other])) continue;
          const std::uint32_t earlier = accesses_[other].step;
          if (mine[earlier / 64] >> (earlier % 64) & 1) continue;
          return internal_error(fmt::format("{}: nothing makes it wait for step {} ({}), which uses the same memory",
                                            describe(program_, {rank, step}), earlier,
                                            to_string(schedule.steps[earlier])));
        }
      }
      for (std::uint32_t i = schedule.dependants_begin[step]; i < schedule.dependants_begin[step + 1]; ++i) {
        std::uint64_t* theirs = &ancestors[schedule.dependants[i] * words];
        for (std::size_t word = 0; word < words; ++word) theirs[word] |= mine[word];
        theirs[step / 64] |= std::uint64_t{1} << (step % 64);
      }
    }
    return ok_status();
  }

 private:
  struct Access {
    std::uint32_t memory, first, last, step;
    bool writes;
  };
  static bool conflict(const Access& a, const Access& b) {
    return a.memory == b.memory && a.first < b.last && b.first < a.last && (a.writes || b.writes);
  }
  void record(const Region& region, std::uint32_t step, bool writes) {
    const Cells::Range range = cells_.of(region);
    accesses_.push_back({region.memory, range.first, range.last, step, writes});
  }

  const Program& program_;
  const Cells& cells_;
  std::vector<Access> accesses_;
};

}  // namespace

Result<Proof> verify(const Program& program, const Contract& contract) {
  FOLDCAST_RETURN_IF_ERROR(Obligation::check(contract, program.ranks.size()));
  const Obligation obligation(contract, static_cast<std::uint32_t>(program.ranks.size()));
  FOLDCAST_ASSIGN(const Wiring wiring, wire(program, obligation.blocks()));
  const Cells cells(program, obligation.blocks());
  ConflictCheck conflicts(program, cells);
  for (std::uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    FOLDCAST_RETURN_IF_ERROR(conflicts.run(rank));
  }
  FOLDCAST_ASSIGN(const EventOrder order, order_events(program, wiring));
  const Subject subject{program, wiring, cells, obligation};
  FOLDCAST_ASSIGN(const Proof proof, run_symbolically(subject, order, false));
  FOLDCAST_RETURN_IF_ERROR(run_symbolically(subject, order, true).status());
  return proof;
}

}  // namespace foldcast::schedule
