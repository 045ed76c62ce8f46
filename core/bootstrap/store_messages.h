#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"

namespace foldcast::bootstrap {

// What a rank and the store say to each other, one message a frame (see channel.h):
//
//   frame   := type:u8 fields
//   rank    -> join rank size name        store -> joined rank-0's-name | refused reason | later
//   rank    -> set id key value           store -> answer id code message values
//   rank    -> get id key time            store -> answer ...
//   rank    -> gather id name time value members   store -> answer ...
//   rank    -> gather_alive (as gather)   store -> answer: "+" and the value, or nothing for a member that is gone
//   rank    -> publish text               store -> notice text   (to all others, unasked)
//   rank    -> farewell                   store -> goodbye (and closes)
//                                         store -> failed rank name reason   (unasked)
//                                         store -> host_left                 (unasked: rank 0 said farewell)
//
// Times are milliseconds that the asker still waits; kForever has no limit. Strings are u32-prefixed, lists too.

inline constexpr std::string_view kStoreService = "store/1";
inline constexpr std::size_t kMaxNameBytes = 255;  ///< of a rank, a key or an agreement
inline constexpr std::uint64_t kForever = ~0ull;

enum class StoreVerb : std::uint8_t {
  kJoin = 1,
  kSet = 2,
  kGet = 3,
  kGather = 4,
  kFarewell = 5,
  kGatherAlive = 6,
  kPublish = 7,
  kJoined = 16,
  kRefused = 17,
  kLater = 18,
  kAnswer = 19,
  kFailed = 20,
  kHostLeft = 21,
  kGoodbye = 22,
  kNotice = 23,
};

/// The union of all messages' fields; each verb uses those of the grammar above.
struct StoreMessage {
  StoreVerb verb = StoreVerb::kFarewell;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t id = 0;
  std::uint64_t time_ms = 0;
  Code code = Code::kOk;
  std::string name{};  ///< of a rank, a key or an agreement
  std::string text{};  ///< a value, a reason or an error's message
  std::vector<std::int32_t> members{};
  std::vector<std::string> values{};
};

std::string encode(const StoreMessage& message);
/// Nothing when it is not a whole, valid message.
std::optional<StoreMessage> decode_store_message(std::string_view frame);

std::uint64_t time_left_ms(Deadline deadline);
Deadline deadline_in_ms(std::uint64_t time_ms);

}  // namespace foldcast::bootstrap
