#include "hierarchy/shm/call_check.h"

#include <string>

#include "core/schedule/step.h"
#include "hierarchy/node_group.h"
#include "kernels/user_op.h"

namespace foldcast::hierarchy {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 56;  ///< of a call; more is a caller's arithmetic gone wrong

/// Nothing, or what is wrong. Only a call that is wrong pays for the words.
std::string problem_of_operands(const EngineCall& call) {
  if (!is_valid(call.signature.dtype)) return "unknown datatype";
  if (call.count > kMostBytes / size_of(call.signature.dtype)) {
    return "count " + std::to_string(call.count) + " is more than memory can hold";
  }
  const bool reduces = call.verb == Verb::kAllReduce || call.verb == Verb::kReduceScatter || call.verb == Verb::kReduce;
  if (!reduces) return {};
  const ReduceOp op = call.signature.op;
  if (is_user(op)) {
    return kernels::find_user_op(op) != nullptr ? "" : "the reduction's function is not registered (any more)";
  }
  if (!is_valid(op)) return "unknown op";
  if (is_defined(call.signature.dtype, op)) return {};
  return std::string(to_string(op)) + " is not defined for " + std::string(to_string(call.signature.dtype));
}

std::string problem_of_ranks(const EngineCall& call, std::uint32_t size) {
  const auto group = [&] { return " in a group of " + std::to_string(size); };
  switch (call.verb) {
    case Verb::kReduceScatter:
    case Verb::kAllGather:
      if (call.owners < 1 || call.owners > size) return std::to_string(call.owners) + " owners" + group();
      if (call.cuts == nullptr) return {};
      for (std::uint32_t owner = 0; owner < call.owners; ++owner) {
        if (call.cuts[owner] > call.cuts[owner + 1]) return "cuts that do not ascend";
      }
      if (call.cuts[0] != 0 || call.cuts[call.owners] != call.count) {
        return "cuts that do not reach from 0 to count " + std::to_string(call.count);
      }
      return {};
    case Verb::kBroadcast:
    case Verb::kReduce:
    case Verb::kGather:
    case Verb::kScatter:
      if (call.peer >= 0 && static_cast<std::uint32_t>(call.peer) < size) return {};
      return std::string(to_string(call.verb)) + " with local rank " + std::to_string(call.peer) + " as root" + group();
    case Verb::kAllToAll:
      if (call.count % size == 0) return {};
      return "all_to_all of " + std::to_string(call.count) + " elements" + group() + " has uneven shards";
    default:
      return {};
  }
}

struct Needs {
  bool input = true;
  bool output = true;
};

/// What the rank reads and writes. Of one shard alone the buffers are pointers to where the whole would begin.
Needs needs_of(const EngineCall& call, std::uint32_t rank, std::uint32_t size) {
  const bool is_root = call.peer == static_cast<std::int32_t>(rank);
  const auto owns = [&](std::uint64_t owners) {
    if (rank >= owners) return false;
    if (call.cuts != nullptr) return call.cuts[rank] != call.cuts[rank + 1];
    return schedule::cut(call.count, rank, owners) != schedule::cut(call.count, rank + 1ull, owners);
  };
  switch (call.verb) {
    case Verb::kReduceScatter:
      return {true, owns(call.owners)};
    case Verb::kAllGather:
      return {owns(call.owners), true};
    case Verb::kBroadcast:
      return {is_root, true};
    case Verb::kReduce:
      return {true, is_root};
    case Verb::kGather:
      return {owns(size), is_root};
    case Verb::kScatter:
      return {is_root, owns(size)};
    default:
      return {};
  }
}

std::string problem_of(const EngineCall& call, std::uint32_t rank, std::uint32_t size) {
  if (call.verb == Verb::kBarrier) return {};
  if (std::string problem = problem_of_operands(call); !problem.empty()) return problem;
  const bool plain = call.verb == Verb::kAllReduce;
  if (!plain) {
    if (std::string problem = problem_of_ranks(call, size); !problem.empty()) return problem;
  }
  if (call.count == 0 || (call.input != nullptr && call.output != nullptr)) return {};
  const Needs needs = needs_of(call, rank, size);
  if ((needs.input && call.input == nullptr) || (needs.output && call.output == nullptr)) {
    return "a null buffer with count " + std::to_string(call.count);
  }
  return {};
}

}  // namespace

Status check_call(const EngineCall& call, std::uint32_t rank, std::uint32_t size) {
  const auto who = [&] { return "node group, local rank " + std::to_string(rank) + ": "; };
  if (call.lane >= NodeGroup::kLanes) return invalid_argument(who() + "lane " + std::to_string(call.lane) + " of 2");
  if (call.verb == Verb::kSend || call.verb == Verb::kRecv) {
    return unsupported(who() + "send and recv are a transport's");
  }
  if (const std::string problem = problem_of(call, rank, size); !problem.empty()) {
    return invalid_argument(who() + problem);
  }
  return ok_status();
}

}  // namespace foldcast::hierarchy
