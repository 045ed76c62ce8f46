#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace foldcast {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian and so must the host be");

/// Appends little-endian fields to a message between processes: the one encoding of all control messages. What a field
/// is for, and its limits, is said where the message is defined.
class WireWriter {
 public:
  template <std::integral T>
  WireWriter& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  /// A name: its length in 16 bits, then that many bytes; what is longer than `limit` (at most 65535) is cut, so that
  /// an encoder cannot fail.
  WireWriter& put_text(std::string_view text, std::size_t limit) {
    text = text.substr(0, limit);
    put(static_cast<std::uint16_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  /// Contents: their length in 32 bits, then that many bytes.
  WireWriter& put_bytes(std::string_view contents) {
    put(static_cast<std::uint32_t>(contents.size()));
    bytes_ += contents;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what WireWriter wrote. Never reads past the end: after the first failure ok() is false and all reads give
/// zero. Callers check once, at the end, and must not trust a count before they compared it with left().
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T get() {
    T value{};
    if (!ok_ || rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string get_text(std::size_t limit) {
    const auto size = get<std::uint16_t>();
    return take(size, limit);
  }
  std::string get_bytes() {
    const auto size = get<std::uint32_t>();
    return take(size, size);
  }
  std::size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }
  /// Everything was there and nothing is left over.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  std::string take(std::size_t size, std::size_t limit) {
    if (!ok_ || size > limit || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string taken(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace foldcast
