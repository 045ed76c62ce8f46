#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foldcast::bootstrap {

/// Appends integers (big-endian) and strings (a u32 length, then the bytes) to a frame.
class WireWriter {
 public:
  WireWriter& u8(std::uint8_t value) { return integer(value, 1); }
  WireWriter& u32(std::uint32_t value) { return integer(value, 4); }
  WireWriter& i32(std::int32_t value) { return u32(static_cast<std::uint32_t>(value)); }
  WireWriter& u64(std::uint64_t value) { return integer(value, 8); }
  WireWriter& text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  WireWriter& integer(std::uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) bytes_ += static_cast<char>(value >> shift & 0xff);
    return *this;
  }
  std::string bytes_;
};

/// Reads what WireWriter wrote. Running off the end yields zeros and makes done() false: callers check once, at the
/// end, and must not trust a count before they compared it with remaining().
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::uint64_t u64() { return integer(8); }
  std::string text() {
    std::uint32_t length = u32();
    if (length > bytes_.size()) {
      failed_ = true;
      return {};
    }
    std::string value(bytes_.substr(0, length));
    bytes_.remove_prefix(length);
    return value;
  }
  std::size_t remaining() const { return bytes_.size(); }
  /// True when everything was there and nothing is left over.
  bool done() const { return !failed_ && bytes_.empty(); }

 private:
  std::uint64_t integer(std::size_t bytes) {
    if (bytes > bytes_.size()) {
      failed_ = true;
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[i]);
    bytes_.remove_prefix(bytes);
    return value;
  }
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace foldcast::bootstrap
