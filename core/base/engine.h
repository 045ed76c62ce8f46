#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/collective.h"
#include "core/base/status.h"

namespace foldcast {

/// What an engine can be asked to do. Each engine documents which of these it takes.
enum class Verb : std::uint8_t {
  kSend,           ///< transports: `input`, `bytes` to `peer`
  kRecv,           ///< transports: up to `bytes` from `peer` to `output`
  kAllReduce,      ///< group engines: `count` elements, `input` to `output` (may be equal)
  kReduceScatter,  ///< node groups: shard s of `count` elements is reduced to local rank s, for s < `owners`
  kAllGather,      ///< node groups: shard s goes from local rank s to everyone, for s < `owners`
  kBroadcast,      ///< node groups: `count` elements from local rank `peer`
  kBarrier,        ///< group engines: completes when every member has posted it
  kReduce,         ///< node groups: `count` elements are reduced to local rank `peer`
  kGather,         ///< node groups: shard s goes from local rank s to local rank `peer`; every rank owns one
  kScatter,        ///< node groups: shard s goes from local rank `peer` to local rank s; every rank owns one
  kAllToAll,       ///< node groups: shard d of local rank s becomes shard s of local rank d; shards are equal
};

/// "all_reduce" and so on.
std::string_view to_string(Verb verb);

/// Names one message of one fragment of one call. Equal on both sides; messages with equal keys between the same two
/// peers match first-in-first-out.
struct MessageKey {
  std::uint32_t communicator = 0;  ///< unique in the job; trees of aggregators have the top bit set
  std::uint32_t fragment = 0;
  std::uint64_t sequence = 0;  ///< the communicator's running call number
  std::uint64_t tag = 0;       ///< which message of the fragment: channel and ordinal, as the schedule numbers them
  friend bool operator==(const MessageKey&, const MessageKey&) = default;
};
static_assert(sizeof(MessageKey) == 24);

/// One request to an engine. A plain value: the buffers stay the caller's and must live until the completion.
struct EngineCall {
  Verb verb = Verb::kBarrier;
  std::uint8_t lane = 0;     ///< group engines: see Engine
  std::uint16_t owners = 0;  ///< reduce_scatter, all_gather
  std::int32_t peer = -1;    ///< send, recv: the transport's peer number; broadcast and so on: the root's local rank
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;  ///< send: payload; recv: room
  std::uint64_t count = 0;  ///< group engines: elements, of all shards
  /// reduce_scatter, all_gather: owners + 1 offsets in elements, from 0 to `count`, where shards are uneven; else null.
  /// Lives as long as the buffers.
  const std::uint64_t* cuts = nullptr;
  MessageKey key;
  /// What the call is part of. On a receive, Signature::any() accepts every message of the key.
  Signature signature;
};

/// The end of one call. `status` is success or why it failed; the fields below it are set by a successful receive.
struct Completion {
  std::uint64_t cookie = 0;
  Status status;
  std::uint64_t bytes = 0;
  Signature signature;
};

enum class Posted : std::uint8_t {
  kAccepted,  ///< exactly one completion with the call's cookie will come from poll()
  kRetry,     ///< a queue is full; post again after poll(). Not an error
};

/// Everything that moves or reduces bytes: transports, node groups, offload groups. One owner thread calls all of it.
///
/// Group engines: all members post the same calls in the same order *per lane*; the lanes (there are few, see the
/// engine) are independent of each other, so that a fragment on its way down does not wait behind one on its way up.
///
/// Sleeping: a caller that found nothing to do calls arm(); if that answers true it may sleep until descriptor() is
/// readable (poll(2), level-triggered) and must then poll(). False means something came up meanwhile: poll() again.
/// Nothing here blocks, but that cancel() may wait about a second for a transfer under way. Failures come as
/// completions; `post` never fails.
class Engine {
 public:
  virtual ~Engine() = default;
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  virtual Posted post(const EngineCall& call, std::uint64_t cookie) = 0;
  /// Makes progress and fills in up to `out.size()` completions; returns how many.
  virtual std::size_t poll(std::span<Completion> out) = 0;
  /// To sleep on, or -1 when all work completes inside post() and poll().
  virtual int descriptor() const = 0;
  virtual bool arm() = 0;
  /// Ends all outstanding calls of `communicator` with kAborted (their completions still come from poll()). After it
  /// returns none of their buffers is read or written, and late messages of that communicator are dropped.
  virtual void cancel(std::uint32_t communicator) = 0;
};

}  // namespace foldcast
