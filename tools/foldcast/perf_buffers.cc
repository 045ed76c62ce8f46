#include "tools/foldcast/perf_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace foldcast::tools {
namespace {

constexpr std::size_t kAlignment = 4096;
static_assert(GuardedBuffer::kBand % kAlignment == 0, "data() is aligned as the allocation is");
constexpr int kUnwritten = 0xa5;

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t size) : bytes_(nullptr, std::free) {
  std::size_t room = (size + 2 * kBand + kAlignment - 1) / kAlignment * kAlignment;
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
  if (bytes_ == nullptr) throw std::bad_alloc();
  std::memset(bytes_.get(), 0, room);
}

void GuardedBuffer::mark_unwritten(std::size_t size) { std::memset(bytes_.get(), kUnwritten, size + 2 * kBand); }

std::uint64_t GuardedBuffer::written(const std::byte* from, const std::byte* to, std::size_t element) {
  if (from >= to) return 0;
  auto bytes = static_cast<std::size_t>(to - from);
  // All equal to the first, and that to the mark: memcmp with itself, one byte on, is as fast as can be.
  bool clean = *from == std::byte{kUnwritten} && std::memcmp(from, from + 1, bytes - 1) == 0;
  if (clean) return 0;
  auto touched = std::count_if(from, to, [](std::byte byte) { return byte != std::byte{kUnwritten}; });
  return (static_cast<std::uint64_t>(touched) + element - 1) / element;
}

Expectation::Expectation(const PerfCall& call, const CallLayout& layout, const Numbers& numbers)
    : call_(call), layout_(layout), data_{call.dtype, numbers.seed} {
  if (!reduces(call.kind)) return;
  ReferenceShape shape{call.dtype, call.op, call.ranks, call.rank, numbers.seed, numbers.wire};
  reference_.emplace(shape, layout.data_size);
}

void Expectation::prepare(PerfBuffers& buffers) const {
  buffers.recv.mark_unwritten(layout_.room * element());
  std::byte* target = layout_.input_in_recv ? buffers.recv.data() : buffers.send.data();
  for (const Piece& piece : layout_.inputs) {
    std::byte* at = target + piece.at * element();
    if (reference_) {
      reference_->fill(at, piece.first, piece.count);
    } else {
      MovedData(data_, piece.source).fill(at, piece.first, piece.count);
    }
  }
}

Wrong Expectation::judge(const PerfBuffers& buffers) const {
  Wrong wrong = judge_outputs(buffers.recv.data());
  wrong.add(judge_surroundings(buffers.recv.data()));
  if (!layout_.input_in_recv) wrong.add(judge_input(buffers.send.data()));
  return wrong;
}

Wrong Expectation::judge_outputs(const std::byte* recv) const {
  Wrong wrong;
  for (const Piece& piece : layout_.outputs) {
    const std::byte* at = recv + piece.at * element();
    Wrong here = reference_ ? reference_->check(at, piece.first, piece.count)
                            : MovedData(data_, piece.source).check(at, piece.first, piece.count);
    bool names_block = here.elements > 0 && layout_.outputs.size() > 1;
    if (names_block) here.first = fmt::format("block of rank {}, {}", piece.source, here.first);
    wrong.add(here);
  }
  return wrong;
}

Wrong Expectation::judge_surroundings(const std::byte* recv) const {
  Wrong wrong;
  auto look = [&](const std::byte* from, const std::byte* to) {
    std::uint64_t elements = GuardedBuffer::written(from, to, element());
    if (elements == 0) return;
    wrong.add({elements, fmt::format("written outside of the result, from {} to {} bytes behind the buffer's start",
                                     from - recv, to - recv)});
  };
  const std::byte* end = recv + layout_.room * element();
  look(recv - GuardedBuffer::kBand, recv);
  const std::byte* from = recv;
  for (const Piece& piece : layout_.outputs) {
    const std::byte* at = recv + piece.at * element();
    if (!layout_.may_use_recv) look(from, at);
    from = at + piece.count * element();
  }
  if (!layout_.may_use_recv) look(from, end);
  look(end, end + GuardedBuffer::kBand);
  return wrong;
}

Wrong Expectation::judge_input(const std::byte* send) const {
  Wrong wrong;
  for (const Piece& piece : layout_.inputs) {
    const std::byte* at = send + piece.at * element();
    Wrong here = reference_ ? reference_->check_contribution(at, piece.first, piece.count)
                            : MovedData(data_, piece.source).check(at, piece.first, piece.count);
    if (here.elements > 0) here.first = "the send buffer was written: " + here.first;
    wrong.add(here);
  }
  return wrong;
}

}  // namespace foldcast::tools
