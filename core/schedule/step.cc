#include "core/schedule/step.h"

#include <fmt/format.h>

namespace foldcast::schedule {
namespace {

/// ", message 3" and the channel when it is not the usual one.
std::string message_of(const Step& step) {
  if (step.channel == 0) return fmt::format(", message {}", step.ordinal);
  return fmt::format(", message {} of channel {}", step.ordinal, step.channel);
}

std::string group_text(const Step& step) {
  std::string text = fmt::format("group {} {}", step.group, foldcast::to_string(step.verb));
  switch (step.verb) {
    case Verb::kBroadcast:
    case Verb::kScatter:
      text += fmt::format(" from member {}", step.peer);
      break;
    case Verb::kReduce:
    case Verb::kGather:
      text += fmt::format(" at member {}", step.peer);
      break;
    default:
      break;
  }
  if (step.verb != Verb::kBarrier) text += fmt::format(" {} to {}", to_string(step.a), to_string(step.target));
  if (step.verb == Verb::kReduceScatter || step.verb == Verb::kAllGather) {
    text += fmt::format(", {} {}", step.owners, step.owners == 1 ? "owner" : "owners");
  }
  return text + fmt::format(", lane {}", step.lane);
}

}  // namespace

std::string to_string(const Chunk& chunk) {
  if (chunk.of == 0) return "a chunk cut into no parts";
  std::string name;
  switch (chunk.space) {
    case Space::kInput:
      name = "input";
      break;
    case Space::kOutput:
      name = "output";
      break;
    case Space::kScratch:
      name = fmt::format("scratch{}", chunk.index / chunk.of);
      break;
  }
  const std::uint32_t within = chunk.space == Space::kScratch ? chunk.index % chunk.of : chunk.index;
  if (within == 0 && chunk.span == chunk.of) return name;
  if (chunk.span == 1) return fmt::format("{}[{}/{}]", name, within, chunk.of);
  return fmt::format("{}[{}+{}/{}]", name, within, chunk.span, chunk.of);
}

std::string to_string(const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      return fmt::format("send {} to rank {}{}", to_string(step.a), step.peer, message_of(step));
    case StepKind::kRecv:
      return fmt::format("recv {} from rank {}{}", to_string(step.target), step.peer, message_of(step));
    case StepKind::kReduce:
      return fmt::format("reduce {} = {} op {}", to_string(step.target), to_string(step.a), to_string(step.b));
    case StepKind::kCopy:
      return fmt::format("copy {} = {}", to_string(step.target), to_string(step.a));
    case StepKind::kGroup:
      return group_text(step);
  }
  return "unknown";
}

}  // namespace foldcast::schedule
