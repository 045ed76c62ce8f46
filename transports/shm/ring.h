#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/base/engine.h"
#include "core/base/unique_fd.h"
#include "transports/shm/cross_memory.h"

namespace foldcast::transports {

enum class RecordKind : std::uint8_t {
  kMessage = 1,  ///< a whole message, its payload with it
  kOffer = 2,    ///< a message whose bytes stay with the sender until the receiver wants them, see Transfer
  kPart = 3,     ///< the next bytes of a transfer that goes through the ring
  kCancel = 4,   ///< the sender has taken back what it offered for key.communicator
  kSkip = 5,     ///< nothing: what is left of the ring before it begins again
};

/// One entry of a ring, the first cache line of it: small messages are one line.
struct alignas(64) Record {
  std::atomic<std::uint32_t> cells;  ///< lines it takes; 0 until all of it is there
  RecordKind kind;
  std::uint8_t reserved;
  std::uint16_t transfer;  ///< kOffer, kPart
  std::uint64_t bytes;     ///< of the message or part
  MessageKey key;
  Signature signature;
  std::byte payload[8];  ///< goes on in the next lines
};
static_assert(sizeof(Record) == 64 && offsetof(Record, payload) == 56);

/// A large message between two processes. Both copy: each claims a piece, copies it and says so, until all is copied.
/// So it goes as fast as the two cores can and ends although one of them is busy elsewhere.
struct Transfer {
  enum State : std::uint32_t {
    kFree,      ///< the sender may use it
    kOffered,   ///< by the sender; `source` is set
    kAttached,  ///< the receiver copies from the sender's memory, and the sender may copy to the receiver's `target`
    kWanted,    ///< the receiver cannot read the sender's memory: it is to send parts
    kReleased,  ///< the receiver is done with it, one way or the other
  };
  /// In `claimed`: nobody may claim any more; the message has been taken back.
  static constexpr std::uint64_t kStopped = std::uint64_t{1} << 63;

  alignas(64) std::atomic<State> state;
  std::uint64_t source;
  std::uint64_t target;
  alignas(64) std::atomic<std::uint64_t> claimed;
  std::atomic<std::uint64_t> copied;
};

/// What one process writes and another reads, in memory of both. The writer makes it, zeroed.
struct RingMemory {
  static constexpr std::uint64_t kBytes = 128u << 10;  ///< of records
  static constexpr std::uint32_t kTransfers = 32;

  ProcessMemory writer;
  ProcessMemory reader;  ///< valid once reader_is_there
  std::atomic<bool> reader_is_there;
  alignas(64) std::atomic<std::uint64_t> consumed;      ///< bytes of records that the reader needs no more
  alignas(64) std::atomic<std::uint8_t> reader_asleep;  ///< wants to be woken when there is something
  alignas(64) std::atomic<std::uint8_t> writer_asleep;  ///< the same, when there is room or a transfer has moved
  Transfer transfers[kTransfers];
  alignas(4096) std::byte records[kBytes];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Transfer::State>::is_always_lock_free);

struct RingUnmap {
  void operator()(RingMemory* memory) const;
};
using MappedRing = std::unique_ptr<RingMemory, RingUnmap>;

/// A new ring's memory, a sealed memfd all of whose pages are there. kResourceExhausted when there is not so much.
Result<UniqueFd> allocate_ring();
/// Maps it; refuses one of another size or that could still shrink.
Result<MappedRing> map_ring(int memfd);

/// The writing end. The record behind the last is marked empty before the last is published, so whoever reads looks at
/// nothing but the records themselves.
class RingWriter {
 public:
  /// A place for a record with that much payload, not yet seen by the reader; null while there is no room.
  Record* reserve(RingMemory& memory, std::uint64_t payload_bytes);
  /// The record that reserve() gave is complete.
  void publish(RingMemory& memory);

  /// What a record's payload is at most: several fit.
  static constexpr std::uint64_t kMostPayload = 16u << 10;

 private:
  std::uint64_t written_ = 0;
  std::uint64_t consumed_ = 0;  ///< as far as known
  std::uint32_t reserved_ = 0;  ///< cells
};

/// The reading end.
class RingReader {
 public:
  /// The next record, null when there is none. `broken` is set when what is there is none: the ring is of no use then.
  const Record* front(RingMemory& memory, bool& broken);
  /// What front() gave is not needed any more.
  void pop();
  /// Whether so much was popped that the writer must be told.
  bool owes() const;
  /// Tells the writer of all that was popped; it may sleep for it.
  void release(RingMemory& memory);

 private:
  std::uint64_t read_ = 0;
  std::uint64_t released_ = 0;
  std::uint32_t cells_ = 0;  ///< of the record at the front
};

}  // namespace foldcast::transports
