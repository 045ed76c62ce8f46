#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/group_caps.h"
#include "core/base/status.h"
#include "offload/protocol/limits.h"
#include "offload/tree.h"

namespace foldcast::offload {

/// What the channel's handshake must agree on: the protocol and its version. Decoders are strict, so any change to a
/// frame below is a new version.
inline constexpr std::string_view kService = "aggregator/1";

inline constexpr std::uint32_t kGroupBit = 1u << 31;

enum class ChildKind : std::uint8_t { kMember = 0, kAggregator = 1 };

/// A child asks its aggregator for a place in a group.
struct Join {
  std::uint32_t group = 0;
  std::uint32_t incarnation = 1;
  std::uint64_t job_token = 0;
  ChildKind kind = ChildKind::kMember;
  std::int32_t index = 0;           ///< member of the tree, or vertex
  std::int32_t vertex = 0;          ///< whom the child takes us for
  std::uint32_t timeout_ms = 5000;  ///< how long forming may take
  std::uint32_t window = 0;
  std::uint32_t fragment = 0;
  GroupCaps caps;       ///< of the child and all below it; what is not `window` and `fragment` travels
  std::string address;  ///< of the child's transport
  std::string job;
  Tree tree;
};

/// An aggregator tells its child that the whole tree is there.
struct Grant {
  std::uint32_t group = 0;
  std::uint32_t window = 0;
  std::uint32_t fragment = 0;
  std::uint32_t lease_ms = 5000;
  GroupCaps caps;       ///< of the whole tree; as in Join
  std::string address;  ///< of the aggregator's transport
};

/// "I live": from a child every fifth of a lease, and the aggregator's answer.
struct Renew {
  std::uint32_t group = 0;
};

/// A child has no more calls; what it contributed counts.
struct Leave {
  std::uint32_t group = 0;
};

/// The group is over, or never came to be; in either direction. Group 0: the connection's first frame was no join.
struct Error {
  std::uint32_t group = 0;
  Code code = Code::kInternal;
  std::string reason;
};

/// The aggregator is going away, by order.
struct Farewell {
  std::uint32_t group = 0;
  std::string reason;
};

using ControlFrame = std::variant<Join, Grant, Renew, Leave, Error, Farewell>;

std::string encode(const ControlFrame& frame);
/// Total on garbage: kInvalidArgument saying what is wrong. A Join's tree has been validated.
Result<ControlFrame> decode(std::string_view bytes);
std::string_view name_of(const ControlFrame& frame);
std::uint32_t group_of(const ControlFrame& frame);
/// Why `frame` does not belong on a connection that joined `group`; empty when it does.
std::string misdirected(const ControlFrame& frame, std::uint32_t group);

}  // namespace foldcast::offload
