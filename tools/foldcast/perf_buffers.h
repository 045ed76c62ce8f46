#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/collective.h"
#include "tools/foldcast/perf_layout.h"
#include "tools/foldcast/perf_moved.h"
#include "tools/foldcast/perf_reference.h"

namespace foldcast::tools {

/// A buffer for calls of every size up to its own, with a band before and behind that no call may touch. Pages are
/// touched once, so that none is first touched while a clock runs. Throws std::bad_alloc.
class GuardedBuffer {
 public:
  static constexpr std::size_t kBand = 4096;

  explicit GuardedBuffer(std::size_t size);
  std::byte* data() { return bytes_.get() + kBand; }
  const std::byte* data() const { return bytes_.get() + kBand; }
  /// Before a call on the first `size` bytes: these and the bands have a value that says "not written".
  void mark_unwritten(std::size_t size);
  /// Elements' worth of bytes that were written between `from` and `to` (bytes from data(); may lie in the bands).
  static std::uint64_t written(const std::byte* from, const std::byte* to, std::size_t element);

 private:
  std::unique_ptr<std::byte, void (*)(void*)> bytes_;
};

/// The two buffers of one rank.
struct PerfBuffers {
  GuardedBuffer send;
  GuardedBuffer recv;
  explicit PerfBuffers(std::size_t size) : send(size), recv(size) {}
};

/// One call's data and what must come of it, from the seed alone. The layout is borrowed.
class Expectation {
 public:
  struct Numbers {
    std::uint64_t seed = 0;
    WireFormat wire = WireFormat::kExact;
  };
  Expectation(const PerfCall& call, const CallLayout& layout, const Numbers& numbers);

  /// Puts this rank's data into the buffers, and marks everything else of recv.
  void prepare(PerfBuffers& buffers) const;
  /// Compares what was received; looks for writes outside of where the result belongs; and compares the input where it
  /// is not in recv.
  Wrong judge(const PerfBuffers& buffers) const;

 private:
  std::size_t element() const { return size_of(call_.dtype); }
  Wrong judge_outputs(const std::byte* recv) const;
  Wrong judge_surroundings(const std::byte* recv) const;
  Wrong judge_input(const std::byte* send) const;

  PerfCall call_;
  const CallLayout& layout_;
  DataShape data_;
  std::optional<Reference> reference_;  ///< of collectives that reduce
};

}  // namespace foldcast::tools
