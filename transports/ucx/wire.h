#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "core/base/engine.h"
#include "transports/peer_table.h"

namespace foldcast::transports {

/// What a message is for.
enum class WireKind : std::uint8_t {
  kData = 1,
  kHello = 2,     ///< makes the connection before there is anything to say, so that its loss is noticed
  kCancel = 3,    ///< the sender takes back what it announced for key.communicator and still holds
  kFarewell = 4,  ///< nothing more will come from the sender
};

/// The header of every active message. Little-endian, as all hosts Foldcast builds for are. What it says is believed
/// only after parse_header and a look at the token.
struct WireHeader {
  static constexpr std::uint32_t kMagic = 0x74736366;  // "fcst"
  static constexpr std::uint16_t kVersion = 1;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  WireKind kind = WireKind::kData;
  std::uint8_t reserved = 0;
  std::uint64_t token = 0;
  Identity sender = 0;
  std::uint64_t bytes = 0;  ///< of the payload
  MessageKey key{};
  Signature signature{};
};
static_assert(sizeof(WireHeader) == 72 && std::is_trivially_copyable_v<WireHeader>);
static_assert(std::endian::native == std::endian::little, "the wire format needs byte swapping on this host");

/// The header in `length` bytes at `data`, which come before `payload_bytes`; nothing when it is not a whole, sane one.
inline std::optional<WireHeader> parse_header(const void* data, std::size_t length, std::uint64_t payload_bytes) {
  WireHeader header;
  if (length != sizeof header) return std::nullopt;
  std::memcpy(&header, data, sizeof header);
  if (header.magic != WireHeader::kMagic || header.version != WireHeader::kVersion) return std::nullopt;
  if (header.kind < WireKind::kData || header.kind > WireKind::kFarewell) return std::nullopt;
  if (header.bytes != payload_bytes || (header.kind != WireKind::kData && payload_bytes != 0)) return std::nullopt;
  if (static_cast<std::size_t>(header.signature.kind) >= kCollectiveCount) return std::nullopt;
  const bool op_is_known = is_valid(header.signature.op) || is_user(header.signature.op);
  if (!is_valid(header.signature.dtype) || !op_is_known) return std::nullopt;
  if (static_cast<std::size_t>(header.signature.wire) >= kWireFormatCount) return std::nullopt;
  return header;
}

}  // namespace foldcast::transports
