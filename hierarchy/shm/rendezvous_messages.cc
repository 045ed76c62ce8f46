#include "hierarchy/shm/rendezvous_messages.h"

#include <algorithm>
#include <cstring>

namespace foldcast::hierarchy {
namespace {

constexpr std::size_t kMaxText = 2048;

/// Takes the same time wherever two names differ.
bool equal_names(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

std::string encode(Notice notice, Code code, std::string_view text) {
  std::string bytes{static_cast<char>(notice), static_cast<char>(code)};
  return bytes.append(text.substr(0, kMaxText));
}

}  // namespace

std::string encode_hello(std::uint32_t rank, const SegmentShape& shape, std::string_view name) {
  Hello hello;
  hello.rank = rank;
  hello.size = shape.size;
  hello.slot_bytes = shape.slot_bytes;
  hello.slots = shape.slots;
  hello.name_bytes = static_cast<std::uint32_t>(name.size());
  std::string bytes(sizeof hello, '\0');
  std::memcpy(bytes.data(), &hello, sizeof hello);
  return bytes.append(name);
}

std::optional<Hello> decode_hello(std::string_view bytes, std::string_view name) {
  Hello hello;
  if (bytes.size() < sizeof hello) return std::nullopt;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  bytes.remove_prefix(sizeof hello);
  if (hello.magic != Hello::kMagic || hello.name_bytes != bytes.size() || !equal_names(bytes, name))
    return std::nullopt;
  return hello;
}

std::string encode_notice(Notice notice, std::string_view text) { return encode(notice, Code::kOk, text); }

std::string encode_failure(const Status& status) { return encode(Notice::kFailed, status.code(), status.message()); }

std::optional<DecodedNotice> decode_notice(std::string_view bytes) {
  if (bytes.size() < 2) return std::nullopt;
  const auto notice = static_cast<Notice>(bytes[0]);
  const auto code = static_cast<Code>(bytes[1]);
  if (notice < Notice::kWaiting || notice > Notice::kFailed || code > Code::kInternal) return std::nullopt;
  DecodedNotice decoded{notice, {}, std::string(bytes.substr(2))};
  if (notice == Notice::kFailed) decoded.failure = Status(code == Code::kOk ? Code::kInternal : code, decoded.text);
  return decoded;
}

}  // namespace foldcast::hierarchy
