#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "offload/aggregator/group_machine.h"
#include "transports/transport.h"

namespace foldcast::offload {

/// What an aggregator has done since it started.
struct DataCounters {
  std::uint64_t contributions = 0, results = 0;  ///< fragments received from children, fragments sent to children
  std::uint64_t bytes_in = 0, bytes_out = 0;     ///< their payload
};

/// Which operation of which group a transport's completion ends.
struct DataCookie {
  enum class Kind : std::uint8_t { kContribution, kResult, kSent };
  std::uint32_t group = 0;  ///< the daemon's running number, 24 bits
  Kind kind = Kind::kContribution;
  std::int32_t party = 0;  ///< child; kParent for kResult and what was sent up
  std::uint32_t slot = 0;

  std::uint64_t pack() const {
    return std::uint64_t{group} << 40 | std::uint64_t(kind) << 38 |
           std::uint64_t(std::uint32_t(party + 1) & 0x3fffff) << 16 | slot;
  }
  static DataCookie unpack(std::uint64_t cookie) {
    return {static_cast<std::uint32_t>(cookie >> 40), static_cast<Kind>(cookie >> 38 & 3),
            static_cast<std::int32_t>(cookie >> 16 & 0x3fffff) - 1, static_cast<std::uint32_t>(cookie & 0xffff)};
  }
};

/// One group with its memory and peers: performs the data side of a GroupMachine on the job's transport. Everything is
/// allocated in start(), within machine().memory().
class HostedGroup {
 public:
  HostedGroup(std::uint32_t number, GroupMachine machine, transports::Transport& transport, DataCounters& counters);
  ~HostedGroup();
  HostedGroup(const HostedGroup&) = delete;
  HostedGroup& operator=(const HostedGroup&) = delete;

  /// Answers ControlAction::kStart. kResourceExhausted when the machine has no memory for the group.
  Status start(Time now);
  void on_completion(const DataCookie& cookie, const Completion& completion, Time now);
  /// Performs the machine's pending data actions; what the transport has no room for stays for the next time.
  void perform();
  /// After kEnd: nothing of the group is read or written any more.
  void stop();

  GroupMachine& machine() { return machine_; }
  std::uint32_t number() const { return number_; }
  bool was_started() const { return memory_ != nullptr; }

 private:
  Status allocate();
  std::byte* buffer(SlotBuffer which, std::uint32_t slot, std::int32_t child);
  Posted perform_one(const DataAction& action);
  void reduce(const DataAction& action);

  const std::uint32_t number_;
  GroupMachine machine_;
  transports::Transport& transport_;
  DataCounters& counters_;
  std::int32_t parent_peer_ = -1;
  std::vector<std::int32_t> child_peers_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<const std::byte*> inputs_;
  std::vector<DataAction> waiting_;  ///< what the transport had no room for, in order
};

}  // namespace foldcast::offload
