#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

namespace foldcast::offload {

/// The protocol's numbers, once: what a decoder accepts, what a daemon may be set to, what a group costs.
inline constexpr std::uint32_t kMaxWindow = 4096;
inline constexpr std::uint32_t kMinFragment = 64;
inline constexpr std::uint32_t kMaxFragment = 16u << 20;
/// A fragment is whole elements of every type.
inline constexpr std::uint32_t kFragmentUnit = 8;
inline constexpr std::size_t kMaxName = 255;
inline constexpr std::size_t kMaxReason = 2048;
inline constexpr std::size_t kMaxVertices = 4096;
inline constexpr std::size_t kMaxMembers = 65536;
inline constexpr std::uint32_t kMaxControlFrame = 16u << 20;

/// A broken data connection is often the echo of news that is still on its way over the control connection (the peer
/// left, or knows who failed): so long it may take before the broken connection itself becomes the reason.
inline constexpr std::chrono::milliseconds kHearsay{250};

/// kInvalidArgument unless `window` fragments of `fragment` bytes are something that can be asked for or granted.
Status check_window(std::uint32_t window, std::uint32_t fragment);

/// Fragments that an aggregator holds per slot: a landing buffer per child, the sum, and below the root the result.
constexpr std::uint64_t slot_buffers(std::uint64_t children, bool root) { return children + (root ? 1 : 2); }

/// What a buffer costs besides its payload: its posted receive and its places in the queues of actions. Without it,
/// small fragments would be nearly free and their bookkeeping unbounded.
inline constexpr std::uint64_t kBufferOverhead = 512;

/// What a group is reckoned at.
constexpr std::uint64_t group_memory(std::uint32_t window, std::uint32_t fragment, std::uint64_t buffers_per_slot) {
  return window * buffers_per_slot * (fragment + kBufferOverhead);
}

}  // namespace foldcast::offload
