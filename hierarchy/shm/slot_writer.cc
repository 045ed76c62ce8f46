#include "hierarchy/shm/slot_writer.h"

#include <chrono>
#include <cstring>

#include "kernels/reducer.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace foldcast::hierarchy {
namespace {

/// Smaller writes stay in the caches: what they wait for is the hand-over, not the bytes.
constexpr std::size_t kLeastBytes = 8192;
/// One write in so many is timed; of those, one in so many goes the other way.
constexpr std::uint32_t kTimed = 8;
constexpr std::uint32_t kOtherWay = 8;
/// Reading from memory is slower than from a cache, so writing past the caches has to gain this much at least.
constexpr double kGain = 1.6;
constexpr double kNewWeight = 0.3;

#if defined(__SSE2__)
constexpr bool kHasPast = true;

void copy_past(std::byte* target, const std::byte* source, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(target)) % kLine;
  std::memcpy(target, source, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(source + done);
    auto* to = reinterpret_cast<__m128i*>(target + done);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  std::memcpy(target + done, source + done, bytes - done);
  // Such stores are not ordered by the release that announces them.
  _mm_sfence();
}
#else
constexpr bool kHasPast = false;

void copy_past(std::byte* target, const std::byte* source, std::size_t bytes) {
  kernels::copy_bytes(target, source, bytes);
}
#endif

}  // namespace

void SlotWriter::write(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (!kHasPast || bytes < kLeastBytes) return kernels::copy_bytes(target, source, bytes);
  if (++writes_ % kTimed == 0) {
    const bool other_way = writes_ % (kTimed * kOtherWay) == 0;
    return write_timed(other_way == (way_ == kPast) ? kThrough : kPast, target, source, bytes);
  }
  if (way_ == kPast) return copy_past(target, source, bytes);
  kernels::copy_bytes(target, source, bytes);
}

void SlotWriter::write_timed(Way way, std::byte* target, const std::byte* source, std::size_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  if (way == kPast) {
    copy_past(target, source, bytes);
  } else {
    kernels::copy_bytes(target, source, bytes);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  const double now = took.count() * 1024 / static_cast<double>(bytes);
  double& mean = nanoseconds_per_kib_[way];
  mean = mean == 0 ? now : mean + kNewWeight * (now - mean);
  const bool known = nanoseconds_per_kib_[kThrough] != 0 && nanoseconds_per_kib_[kPast] != 0;
  if (known) way_ = nanoseconds_per_kib_[kPast] * kGain < nanoseconds_per_kib_[kThrough] ? kPast : kThrough;
}

}  // namespace foldcast::hierarchy
