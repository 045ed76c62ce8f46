#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace foldcast::offload {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian and so must the host be");

/// Appends little-endian fields to a frame.
class WireWriter {
 public:
  template <std::integral T>
  void put(T value) {
    frame_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// A length (16 bits) and that many bytes; what is longer than `limit` is cut, so that an encoder cannot fail.
  void put_text(std::string_view text, std::size_t limit) {
    text = text.substr(0, limit);
    put(static_cast<std::uint16_t>(text.size()));
    frame_ += text;
  }
  std::string take() { return std::move(frame_); }

 private:
  std::string frame_;
};

/// Reads what WireWriter wrote. Never reads past the end: after the first failure ok() is false and all reads give
/// zero.
class WireReader {
 public:
  explicit WireReader(std::string_view frame) : rest_(frame) {}

  template <std::integral T>
  T get() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string get_text(std::size_t limit) {
    const auto size = get<std::uint16_t>();
    if (!ok_ || size > limit || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  std::size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }
  /// Everything was there and nothing is left over.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace foldcast::offload
