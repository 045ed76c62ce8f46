#include "core/bootstrap/store_messages.h"

#include "core/bootstrap/wire.h"

namespace foldcast::bootstrap {
namespace {

void write_fields(const StoreMessage& m, WireWriter& out) {
  switch (m.verb) {
    case StoreVerb::kJoin:
      out.i32(m.rank).i32(m.size).text(m.name);
      break;
    case StoreVerb::kSet:
      out.u32(m.id).text(m.name).text(m.text);
      break;
    case StoreVerb::kGet:
      out.u32(m.id).text(m.name).u64(m.time_ms);
      break;
    case StoreVerb::kGather:
      out.u32(m.id).text(m.name).u64(m.time_ms).text(m.text).u32(static_cast<std::uint32_t>(m.members.size()));
      for (auto rank : m.members) out.i32(rank);
      break;
    case StoreVerb::kJoined:
      out.text(m.name);
      break;
    case StoreVerb::kRefused:
      out.text(m.text);
      break;
    case StoreVerb::kAnswer:
      out.u32(m.id).u8(static_cast<std::uint8_t>(m.code)).text(m.text).u32(static_cast<std::uint32_t>(m.values.size()));
      for (const auto& value : m.values) out.text(value);
      break;
    case StoreVerb::kFailed:
      out.i32(m.rank).text(m.name).text(m.text);
      break;
    case StoreVerb::kFarewell:
    case StoreVerb::kLater:
    case StoreVerb::kHostLeft:
    case StoreVerb::kGoodbye:
      break;
  }
}

/// False for a verb or a value that does not exist; a short frame shows in the reader.
bool read_fields(WireReader& in, StoreMessage& m) {
  switch (m.verb) {
    case StoreVerb::kJoin:
      m.rank = in.i32(), m.size = in.i32(), m.name = in.text();
      return true;
    case StoreVerb::kSet:
      m.id = in.u32(), m.name = in.text(), m.text = in.text();
      return true;
    case StoreVerb::kGet:
      m.id = in.u32(), m.name = in.text(), m.time_ms = in.u64();
      return true;
    case StoreVerb::kGather: {
      m.id = in.u32(), m.name = in.text(), m.time_ms = in.u64(), m.text = in.text();
      std::uint32_t count = in.u32();
      if (in.remaining() != 4ull * count) return false;
      while (count-- > 0) m.members.push_back(in.i32());
      return true;
    }
    case StoreVerb::kJoined:
      m.name = in.text();
      return true;
    case StoreVerb::kRefused:
      m.text = in.text();
      return true;
    case StoreVerb::kAnswer: {
      m.id = in.u32(), m.code = static_cast<Code>(in.u8()), m.text = in.text();
      std::uint32_t count = in.u32();
      if (m.code > Code::kInternal || in.remaining() < 4ull * count) return false;
      while (count-- > 0) m.values.push_back(in.text());
      return true;
    }
    case StoreVerb::kFailed:
      m.rank = in.i32(), m.name = in.text(), m.text = in.text();
      return true;
    case StoreVerb::kFarewell:
    case StoreVerb::kLater:
    case StoreVerb::kHostLeft:
    case StoreVerb::kGoodbye:
      return true;
  }
  return false;
}

}  // namespace

std::string encode(const StoreMessage& message) {
  WireWriter out;
  out.u8(static_cast<std::uint8_t>(message.verb));
  write_fields(message, out);
  return out.take();
}

std::optional<StoreMessage> decode_store_message(std::string_view frame) {
  WireReader in(frame);
  StoreMessage message;
  message.verb = static_cast<StoreVerb>(in.u8());
  if (!read_fields(in, message) || !in.done()) return std::nullopt;
  return message;
}

std::uint64_t time_left_ms(Deadline deadline) {
  if (deadline.at() == Deadline::never().at()) return kForever;
  auto left = deadline.at() - Deadline::Clock::now();
  if (left <= left.zero()) return 0;
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

Deadline deadline_in_ms(std::uint64_t time_ms) {
  constexpr std::uint64_t kYear = 365ull * 24 * 3600 * 1000;
  if (time_ms > kYear) return Deadline::never();
  return Deadline::after(std::chrono::milliseconds(time_ms));
}

}  // namespace foldcast::bootstrap
