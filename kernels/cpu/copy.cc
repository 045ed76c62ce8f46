#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/copy.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

using DByte = hn::ScalableTag<std::uint8_t>;
constexpr std::size_t kVector = hn::MaxLanes(DByte());

/// Whole runs of four vectors; returns how many bytes that were.
template <class Store>
HWY_NOINLINE std::size_t copy_runs(std::byte* target, const std::byte* source, std::size_t bytes) {
  std::size_t offset = 0;
  for (; offset + 4 * kVector <= bytes; offset += 4 * kVector) {
    const auto v0 = get(DByte(), source + offset);
    const auto v1 = get(DByte(), source + offset + kVector);
    const auto v2 = get(DByte(), source + offset + 2 * kVector);
    const auto v3 = get(DByte(), source + offset + 3 * kVector);
    Store::put(v0, DByte(), target + offset);
    Store::put(v1, DByte(), target + offset + kVector);
    Store::put(v2, DByte(), target + offset + 2 * kVector);
    Store::put(v3, DByte(), target + offset + 3 * kVector);
  }
  return offset;
}

void copy_vectors(std::byte* target, const std::byte* source, std::size_t bytes) {
  // Fewer bytes than these the C library copies with vectors too. Without vectors it knows better altogether.
  constexpr std::size_t kSmall = 1024;
  if (bytes <= kSmall || HWY_TARGET == HWY_SCALAR) {
    std::memcpy(target, source, bytes);
    return;
  }
  std::size_t done = (0 - reinterpret_cast<std::uintptr_t>(target)) % kStreamAlignment;
  std::memcpy(target, source, done);
  if (bytes >= kStreamedBytes) {
    done += copy_runs<Streamed>(target + done, source + done, bytes - done);
    hwy::FlushStream();
  } else {
    done += copy_runs<Cached>(target + done, source + done, bytes - done);
  }
  std::memcpy(target + done, source + done, bytes - done);
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(copy_vectors);
void copy_vectors(std::byte* target, const std::byte* source, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_vectors)(target, source, bytes);
}

}  // namespace foldcast::kernels
#endif
