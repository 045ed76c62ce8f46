#include "core/bootstrap/store_messages.h"

#include "core/base/wire.h"

namespace foldcast::bootstrap {
namespace {

void write_fields(const StoreMessage& m, WireWriter& out) {
  switch (m.verb) {
    case StoreVerb::kJoin:
      out.put(m.rank).put(m.size).put_bytes(m.name);
      break;
    case StoreVerb::kSet:
      out.put(m.id).put_bytes(m.name).put_bytes(m.text);
      break;
    case StoreVerb::kGet:
      out.put(m.id).put_bytes(m.name).put(m.time_ms);
      break;
    case StoreVerb::kGather:
    case StoreVerb::kGatherAlive:
      out.put(m.id).put_bytes(m.name).put(m.time_ms).put_bytes(m.text).put(
          static_cast<std::uint32_t>(m.members.size()));
      for (auto rank : m.members) out.put(rank);
      break;
    case StoreVerb::kJoined:
      out.put_bytes(m.name);
      break;
    case StoreVerb::kRefused:
    case StoreVerb::kPublish:
    case StoreVerb::kNotice:
      out.put_bytes(m.text);
      break;
    case StoreVerb::kAnswer:
      out.put(m.id)
          .put(static_cast<std::uint8_t>(m.code))
          .put_bytes(m.text)
          .put(static_cast<std::uint32_t>(m.values.size()));
      for (const auto& value : m.values) out.put_bytes(value);
      break;
    case StoreVerb::kFailed:
      out.put(m.rank).put_bytes(m.name).put_bytes(m.text);
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
      m.rank = in.get<std::int32_t>(), m.size = in.get<std::int32_t>(), m.name = in.get_bytes();
      return true;
    case StoreVerb::kSet:
      m.id = in.get<std::uint32_t>(), m.name = in.get_bytes(), m.text = in.get_bytes();
      return true;
    case StoreVerb::kGet:
      m.id = in.get<std::uint32_t>(), m.name = in.get_bytes(), m.time_ms = in.get<std::uint64_t>();
      return true;
    case StoreVerb::kGather:
    case StoreVerb::kGatherAlive: {
      m.id = in.get<std::uint32_t>(), m.name = in.get_bytes(), m.time_ms = in.get<std::uint64_t>(),
      m.text = in.get_bytes();
      std::uint32_t count = in.get<std::uint32_t>();
      if (in.left() != 4ull * count) return false;
      while (count-- > 0) m.members.push_back(in.get<std::int32_t>());
      return true;
    }
    case StoreVerb::kJoined:
      m.name = in.get_bytes();
      return true;
    case StoreVerb::kRefused:
    case StoreVerb::kPublish:
    case StoreVerb::kNotice:
      m.text = in.get_bytes();
      return true;
    case StoreVerb::kAnswer: {
      m.id = in.get<std::uint32_t>(), m.code = static_cast<Code>(in.get<std::uint8_t>()), m.text = in.get_bytes();
      std::uint32_t count = in.get<std::uint32_t>();
      if (m.code > Code::kInternal || in.left() < 4ull * count) return false;
      while (count-- > 0) m.values.push_back(in.get_bytes());
      return true;
    }
    case StoreVerb::kFailed:
      m.rank = in.get<std::int32_t>(), m.name = in.get_bytes(), m.text = in.get_bytes();
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
  out.put(static_cast<std::uint8_t>(message.verb));
  write_fields(message, out);
  return out.take();
}

std::optional<StoreMessage> decode_store_message(std::string_view frame) {
  WireReader in(frame);
  StoreMessage message;
  message.verb = static_cast<StoreVerb>(in.get<std::uint8_t>());
  if (!read_fields(in, message) || !in.complete()) return std::nullopt;
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
