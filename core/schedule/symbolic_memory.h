#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/cells.h"
#include "core/schedule/contributions.h"
#include "core/schedule/obligation.h"
#include "core/schedule/wiring.h"

namespace foldcast::schedule {

/// What a symbolic run needs to know of a program.
struct Subject {
  const Program& program;
  const Wiring& wiring;
  const Cells& cells;
  const Obligation& obligation;
};

/// The memory of all ranks during a symbolic run: a content for each cell of input, output and scratch units. Faults
/// are kInternal and name rank and step.
class SymbolicMemory {
 public:
  /// `subject` must outlive this. `in_place`: input and output are one memory, on ranks whose schedule allows that.
  SymbolicMemory(const Subject& subject, bool in_place);

  /// What a step reads of a chunk: a fault where the rank does not have it or nothing was written.
  Status read(StepRef where, const Chunk& chunk, std::vector<Content>& contents) const;
  /// A fault where the rank does not have it.
  Status write(StepRef where, const Chunk& chunk, std::span<const Content> contents);

  std::span<const Content> output(std::uint32_t rank) const;
  bool is_in_place(std::uint32_t rank) const { return in_place_ && !subject_.program.ranks[rank].memory.apart; }

  Status fault(StepRef where, std::string_view what) const;
  /// About what is in a cell of the output in the end; names the step that wrote it.
  Status output_fault(std::uint32_t rank, std::uint32_t cell, std::string_view what) const;

 private:
  /// Where a chunk begins, and how many cells it has.
  struct Stretch {
    std::size_t first, size;
  };
  Stretch stretch_of(std::uint32_t rank, const Chunk& chunk) const;
  Status check_present(StepRef where, const Chunk& chunk) const;

  const Subject& subject_;
  bool in_place_;
  std::vector<std::vector<Content>> contents_;      ///< per rank: rows of cells: input, output, scratch units
  std::vector<std::vector<std::uint32_t>> writer_;  ///< per rank and cell: the step that last wrote it
};

}  // namespace foldcast::schedule
