#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/collective.h"

namespace foldcast::runtime {

/// The blocks of a buffer that has one for each rank, where they are not all of one size: elements.
struct BlockTable {
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> offsets;  ///< of each block; and, where the blocks are dense, their end
  std::uint64_t largest = 0;
  bool dense = false;  ///< block after block from 0 on
};

/// One of a call's two buffers.
struct Side {
  std::byte* data = nullptr;
  /// The buffer is only this block of the whole; -1: it is the whole.
  std::int32_t only_block = -1;
  const BlockTable* table = nullptr;  ///< of the whole; null: blocks of Binding::count elements
  friend bool operator==(const Side&, const Side&) = default;
};

/// A call's pointers and numbers: what a plan lacks. The schedule's whole is `blocks` blocks of `count` elements.
struct Binding {
  Side input;   ///< never written
  Side output;  ///< may be `input`'s memory: at the same place of the whole, or apart
  std::uint64_t count = 0;
  std::uint32_t blocks = 1;
  Signature signature;
  std::uint64_t sequence = 0;
  /// Of an average: what finished elements are divided by, on ranks that have any. 0: nothing.
  std::uint64_t divisor = 0;

  /// The same work as a call of another number. What tables say may have changed, so such calls are not.
  bool repeats(const Binding& other) const {
    return input == other.input && output == other.output && count == other.count && blocks == other.blocks &&
           signature == other.signature && divisor == other.divisor && input.table == nullptr &&
           output.table == nullptr;
  }
};

}  // namespace foldcast::runtime
