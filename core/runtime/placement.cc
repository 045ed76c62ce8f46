#include "core/runtime/placement.h"

#include <algorithm>

namespace foldcast::runtime {
namespace {

std::uint64_t count_of(const Binding& binding, const Side& side, std::uint64_t block) {
  return side.table == nullptr ? binding.count : side.table->counts[block];
}

std::uint64_t offset_of(const Binding& binding, const Side& side, std::uint64_t block) {
  return side.table == nullptr ? block * binding.count : side.table->offsets[block];
}

}  // namespace

std::uint64_t Placement::largest_block(const Binding& binding) {
  std::uint64_t largest = 0;
  for (const Side* side : {&binding.input, &binding.output}) {
    largest = std::max(largest, side->table == nullptr ? binding.count : side->table->largest);
  }
  return largest;
}

std::uint64_t Placement::scratch_elements(const Binding& binding, std::uint64_t of) {
  return binding.blocks * ((largest_block(binding) + of - 1) / of);
}

Stretch Placement::find_in_blocks(const schedule::Chunk& chunk, std::byte* scratch) const {
  const Binding& binding = *binding_;
  const std::size_t element = size_of(binding.signature.dtype);
  const bool whole = chunk.of == 1;
  const std::uint64_t parts = whole ? 1 : chunk.of / binding.blocks;  // of a block
  const std::uint64_t span = whole ? binding.blocks : chunk.span;
  const std::uint64_t within = chunk.index % chunk.of;
  const std::uint64_t block = within / parts;
  const std::uint64_t part = within % parts;
  const bool in_scratch = chunk.space == schedule::Space::kScratch;
  // Scratch holds what is on its way to the output, unless only the input knows the blocks' sizes.
  const Side& sizes = in_scratch ? (binding.output.table != nullptr ? binding.output : binding.input) : side(chunk);

  Stretch found;
  std::uint64_t begin = 0;  // in the block
  if (part + span <= parts) {
    const std::uint64_t count = count_of(binding, sizes, block);
    const std::uint64_t first = schedule::cut(count, index_, of_);
    const std::uint64_t length = schedule::cut(count, index_ + 1, of_) - first;
    begin = first + schedule::cut(length, part, parts);
    found.elements = first + schedule::cut(length, part + span, parts) - begin;
    if (in_scratch) begin -= first;
  } else {
    const std::uint64_t last = block + (span - 1) / parts;
    found.elements =
        offset_of(binding, sizes, last) + count_of(binding, sizes, last) - offset_of(binding, sizes, block);
  }
  if (in_scratch) {
    const std::uint64_t stride = (largest_block(binding) + of_ - 1) / of_;
    const std::uint64_t unit = chunk.index / chunk.of;
    found.data = scratch + ((unit * binding.blocks + block) * stride + begin) * element;
    return found;
  }
  // A group's call names the whole even where the buffer is one block of it: the address may lie before the buffer.
  const Side& from = side(chunk);
  const std::uint64_t origin =
      from.only_block < 0 ? 0 : offset_of(binding, from, static_cast<std::uint64_t>(from.only_block));
  const std::uint64_t offset = (offset_of(binding, from, block) + begin - origin) * element;
  found.data = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(from.data) + offset);
  return found;
}

}  // namespace foldcast::runtime
