#include "core/schedule/symbolic_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

constexpr Chunk kWholeOutput{Space::kOutput, 0, 1, 1};

}  // namespace

SymbolicMemory::SymbolicMemory(const Subject& subject, bool in_place) : subject_(subject), in_place_(in_place) {
  const std::uint32_t cells = subject.cells.count();
  for (std::uint32_t rank = 0; rank < subject.program.ranks.size(); ++rank) {
    const std::uint32_t rows = 2 + subject.program.ranks[rank].scratch_units;
    std::vector<Content> contents(std::size_t{rows} * cells, Contributions::kUndefined);
    const Cells::Range input = subject.obligation.input(subject.cells, rank);
    for (std::uint32_t cell = input.first; cell < input.last; ++cell) {
      contents[cell] = Contributions::input(subject.obligation.input_number(subject.cells, rank, cell));
    }
    writer_.emplace_back(contents.size(), Wiring::kNone);
    contents_.push_back(std::move(contents));
  }
}

SymbolicMemory::Stretch SymbolicMemory::stretch_of(std::uint32_t rank, const Chunk& chunk) const {
  const Cells::Range range = subject_.cells.of(region_of(chunk));
  std::size_t row = 0;
  if (chunk.space == Space::kOutput) row = is_in_place(rank) ? 0 : 1;
  if (chunk.space == Space::kScratch) row = 2 + chunk.index / chunk.of;
  return {row * subject_.cells.count() + range.first, range.size()};
}

Status SymbolicMemory::check_present(StepRef where, const Chunk& chunk) const {
  if (chunk.space == Space::kScratch) return ok_status();
  const Obligation& obligation = subject_.obligation;
  const Cells::Range there = chunk.space == Space::kInput ? obligation.input(subject_.cells, where.rank)
                                                          : obligation.output(subject_.cells, where.rank);
  if (there.has(subject_.cells.of(region_of(chunk)))) return ok_status();
  return fault(where, fmt::format("it uses {}, which the rank does not have", to_string(chunk)));
}

Status SymbolicMemory::read(StepRef where, const Chunk& chunk, std::vector<Content>& contents) const {
  FOLDCAST_RETURN_IF_ERROR(check_present(where, chunk));
  const Stretch stretch = stretch_of(where.rank, chunk);
  const auto from = contents_[where.rank].begin() + static_cast<std::ptrdiff_t>(stretch.first);
  contents.assign(from, from + static_cast<std::ptrdiff_t>(stretch.size));
  if (std::find(contents.begin(), contents.end(), Contributions::kUndefined) == contents.end()) return ok_status();
  return fault(where, fmt::format("it reads {}, where nothing was written", to_string(chunk)));
}

Status SymbolicMemory::write(StepRef where, const Chunk& chunk, std::span<const Content> contents) {
  FOLDCAST_RETURN_IF_ERROR(check_present(where, chunk));
  const Stretch stretch = stretch_of(where.rank, chunk);
  const auto offset = static_cast<std::ptrdiff_t>(stretch.first);
  std::copy(contents.begin(), contents.end(), contents_[where.rank].begin() + offset);
  std::fill_n(writer_[where.rank].begin() + offset, stretch.size, where.step);
  return ok_status();
}

std::span<const Content> SymbolicMemory::output(std::uint32_t rank) const {
  const Stretch stretch = stretch_of(rank, kWholeOutput);
  return std::span(contents_[rank]).subspan(stretch.first, stretch.size);
}

Status SymbolicMemory::fault(StepRef where, std::string_view what) const {
  return internal_error(
      fmt::format("{}: {}{}", describe(subject_.program, where), what, in_place_ ? " (in place)" : ""));
}

Status SymbolicMemory::output_fault(std::uint32_t rank, std::uint32_t cell, std::string_view what) const {
  const std::uint32_t writer = writer_[rank][stretch_of(rank, kWholeOutput).first + cell];
  const std::string place = fmt::format("the output {}{}", subject_.cells.name(cell), in_place_ ? " (in place)" : "");
  if (writer == Wiring::kNone) {
    return internal_error(fmt::format("rank {}: no step writes {}: {}", rank, place, what));
  }
  return internal_error(
      fmt::format("{}: it is the last to write {}: {}", describe(subject_.program, {rank, writer}), place, what));
}

}  // namespace foldcast::schedule
