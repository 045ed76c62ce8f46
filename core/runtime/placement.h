#pragma once

#include <cstddef>
#include <cstdint>

#include "core/runtime/binding.h"
#include "core/schedule/step.h"

namespace foldcast::runtime {

/// Elements in memory.
struct Stretch {
  std::byte* data = nullptr;
  std::uint64_t elements = 0;
};

/// Where the chunks of a schedule are in a call's buffers, for one fragment. A call is cut into `of` fragments: without
/// blocks its elements are; with blocks each block is, so that a fragment has a part of every block and chunks of one
/// block stay in one piece. Chunks of several blocks need an uncut call whose blocks are dense.
class Placement {
 public:
  Placement() = default;
  /// `binding` must outlive it.
  Placement(const Binding& binding, std::uint64_t fragment, std::uint64_t of) : binding_(&binding) {
    if (binding.blocks > 1) {
      index_ = fragment;
      of_ = of;
    } else {
      first_ = schedule::cut(binding.count, fragment, of);
      count_ = schedule::cut(binding.count, fragment + 1, of) - first_;
    }
  }

  /// In the input, the output, or the scratch memory at `scratch`.
  Stretch find(const schedule::Chunk& chunk, std::byte* scratch) const {
    if (binding_->blocks > 1) return find_in_blocks(chunk, scratch);
    const schedule::ElementRange range = schedule::elements_of(chunk, count_);
    const std::size_t element = size_of(binding_->signature.dtype);
    if (chunk.space == schedule::Space::kScratch) return {scratch + range.first * element, range.size()};
    return {side(chunk).data + (first_ + range.first) * element, range.size()};
  }

  /// Elements of one scratch unit, at most, when a call is cut into `of` fragments.
  static std::uint64_t scratch_elements(const Binding& binding, std::uint64_t of);
  /// The elements of the largest block.
  static std::uint64_t largest_block(const Binding& binding);

 private:
  const Side& side(const schedule::Chunk& chunk) const {
    return chunk.space == schedule::Space::kInput ? binding_->input : binding_->output;
  }
  Stretch find_in_blocks(const schedule::Chunk& chunk, std::byte* scratch) const;

  const Binding* binding_ = nullptr;
  std::uint64_t index_ = 0, of_ = 1;     ///< with blocks
  std::uint64_t first_ = 0, count_ = 0;  ///< without
};

}  // namespace foldcast::runtime
