#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "hierarchy/shm/segment.h"

namespace foldcast::hierarchy {

// How local rank 0 (the leader) and the others meet. First the member says who it is and what it expects, with its
// doorbell unless it has those of a group above; the group's name proves that it belongs:
//
//   member   Hello
//   leader   kWaiting text         who is still missing; again when that changes, for the member's own timeout
//   leader   kWelcome              all are there: the segment, then all doorbells in rank order; several messages
//   member   kReady, kFailed text  it has mapped the segment and its own slots have memory, or why not
//   leader   kReady, kFailed text  all have, or why the group cannot be; the end
//
// Both run on one machine as one user, so plain structs in native byte order do.

struct Hello {
  static constexpr std::uint64_t kMagic = 0x32'65'64'6f'6e'63'66;  ///< "fcnode2"
  std::uint64_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t name_bytes = 0;  ///< of the name that follows
};

std::string encode_hello(std::uint32_t rank, const SegmentShape& shape, std::string_view name);
/// Nothing when it is not a hello for the group `name`: from a stranger.
std::optional<Hello> decode_hello(std::string_view bytes, std::string_view name);

enum class Notice : std::uint8_t { kWaiting = 1, kWelcome = 2, kReady = 3, kFailed = 4 };

/// A notice with a text; kFailed carries a code, too.
std::string encode_notice(Notice notice, std::string_view text = {});
std::string encode_failure(const Status& status);

struct DecodedNotice {
  Notice notice = Notice::kWaiting;
  Status failure;  ///< of kFailed
  std::string text;
};
std::optional<DecodedNotice> decode_notice(std::string_view bytes);

}  // namespace foldcast::hierarchy
