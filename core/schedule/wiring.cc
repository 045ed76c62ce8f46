#include "core/schedule/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/schedule/footprint.h"

namespace foldcast::schedule {
namespace {

/// Whether what is in one chunk has as many elements as the other for every count.
bool fits(const Chunk& a, const Chunk& b, std::uint32_t blocks) {
  return blocks > 1 ? same_part_of_block(a, b, blocks) : same_part(a, b);
}

bool is_rooted(Verb verb) {
  return verb == Verb::kBroadcast || verb == Verb::kReduce || verb == Verb::kGather || verb == Verb::kScatter;
}

/// One schedule by itself.
class ShapeCheck {
 public:
  ShapeCheck(const Program& program, const Blocks& blocks, std::uint32_t rank)
      : program_(program), blocks_(blocks), schedule_(program.ranks[rank]), rank_(rank) {}

  Status run() const {
    FOLDCAST_RETURN_IF_ERROR(dependences());
    std::map<std::tuple<StepKind, std::int32_t, std::uint32_t>, std::uint32_t> messages;
    for (std::uint32_t index = 0; index < schedule_.steps.size(); ++index) {
      const Step& step = schedule_.steps[index];
      FOLDCAST_RETURN_IF_ERROR(chunks(index));
      if (step.kind == StepKind::kGroup) FOLDCAST_RETURN_IF_ERROR(group(index));
      if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
      const auto ranks = static_cast<std::int32_t>(program_.ranks.size());
      if (step.peer < 0 || step.peer >= ranks || step.peer == static_cast<std::int32_t>(rank_)) {
        return fault(index, fmt::format("its peer must be another of the {} ranks", ranks));
      }
      const std::uint32_t expected = messages[{step.kind, step.peer, step.channel}]++;
      if (step.ordinal != expected) {
        return fault(index, fmt::format("it is message {} with that peer and channel in program order", expected));
      }
    }
    return ok_status();
  }

 private:
  Status fault(std::uint32_t step, std::string_view what) const {
    return internal_error(fmt::format("{}: {}", describe(program_, {rank_, step}), what));
  }

  Status dependences() const {
    const std::size_t count = schedule_.steps.size();
    const auto& begin = schedule_.dependants_begin;
    if (schedule_.dependences.size() != count || begin.size() != count + 1 || begin.front() != 0 ||
        begin.back() != schedule_.dependants.size() || !std::is_sorted(begin.begin(), begin.end())) {
      return internal_error(fmt::format("rank {}: the lists of dependences do not fit its {} steps", rank_, count));
    }
    std::vector<std::uint32_t> waits(count, 0);
    for (std::uint32_t step = 0; step < count; ++step) {
      for (std::uint32_t i = begin[step]; i < begin[step + 1]; ++i) {
        const std::uint32_t later = schedule_.dependants[i];
        if (later <= step || later >= count) return fault(step, fmt::format("step {} cannot wait for it", later));
        ++waits[later];
      }
    }
    for (std::uint32_t step = 0; step < count; ++step) {
      if (waits[step] == schedule_.dependences[step]) continue;
      return fault(step, fmt::format("it counts {} dependences but {} steps release it", schedule_.dependences[step],
                                     waits[step]));
    }
    return ok_status();
  }

  Status chunks(std::uint32_t index) const {
    const Step& step = schedule_.steps[index];
    if (step.kind == StepKind::kGroup && step.verb == Verb::kBarrier) return ok_status();
    const bool has_source = step.kind != StepKind::kRecv;
    const bool has_second = step.kind == StepKind::kReduce;
    const bool has_target = step.kind != StepKind::kSend;
    auto check = [&](bool used, const Chunk& chunk, bool written) -> Status {
      if (!used) return ok_status();
      if (!is_valid(chunk)) return fault(index, "a chunk does not lie inside its buffer or scratch unit");
      if (chunk.space == Space::kScratch && chunk.index / chunk.of >= schedule_.scratch_units) {
        return fault(index, fmt::format("the schedule has only {} scratch units", schedule_.scratch_units));
      }
      if (written && chunk.space == Space::kInput) return fault(index, "it writes to the input");
      return ok_status();
    };
    FOLDCAST_RETURN_IF_ERROR(check(has_source, step.a, false));
    FOLDCAST_RETURN_IF_ERROR(check(has_second, step.b, false));
    FOLDCAST_RETURN_IF_ERROR(check(has_target, step.target, true));
    const bool crosses = blocks_.crosses && step.kind == StepKind::kCopy;
    if (has_source && has_target && !fits(step.a, step.target, crosses ? blocks_.count : 1)) {
      return fault(index, "source and target are different parts, so their sizes differ for some counts");
    }
    if (has_second && !same_part(step.a, step.b)) {
      return fault(index, "the operands are different parts, so their sizes differ for some counts");
    }
    return ok_status();
  }

  Status group(std::uint32_t index) const {
    const Step& step = schedule_.steps[index];
    if (step.group >= program_.groups.size()) {
      return fault(index, fmt::format("the program has only {} groups", program_.groups.size()));
    }
    const auto& members = program_.groups[step.group].members;
    const auto size = static_cast<std::int64_t>(members.size());
    if (std::find(members.begin(), members.end(), static_cast<std::int32_t>(rank_)) == members.end()) {
      return fault(index, fmt::format("the rank is no member of {}", program_.groups[step.group].name));
    }
    switch (step.verb) {
      case Verb::kSend:
      case Verb::kRecv:
        return fault(index, "a group has no such verb");
      case Verb::kBroadcast:
      case Verb::kReduce:
        return root(index, size);
      case Verb::kGather:
      case Verb::kScatter:
        FOLDCAST_RETURN_IF_ERROR(root(index, size));
        return shards(index, size, size);
      case Verb::kAllToAll:
        return shards(index, size, size);
      case Verb::kReduceScatter:
      case Verb::kAllGather:
        return shards(index, 1, size);
      case Verb::kAllReduce:
      case Verb::kBarrier:
        break;
    }
    return ok_status();
  }

  Status root(std::uint32_t index, std::int64_t members) const {
    const std::int32_t peer = schedule_.steps[index].peer;
    if (peer >= 0 && peer < members) return ok_status();
    return fault(index, fmt::format("its root must be one of the group's {} members", members));
  }

  Status shards(std::uint32_t index, std::int64_t fewest, std::int64_t members) const {
    const Step& step = schedule_.steps[index];
    if (step.owners < fewest || step.owners > members) {
      return fault(index, fewest == members
                              ? fmt::format("each of the group's {} members owns a shard", members)
                              : fmt::format("the group has {} members, so 1 to {} can own a shard", members, members));
    }
    // The engine cuts the elements it is given. Those are the shards' parts only where no cut is rounded or all are
    // rounded alike: between blocks, or of a whole fragment.
    const std::uint64_t of = step.a.of;
    const std::uint64_t first = (step.a.index % of) * blocks_.count;
    const std::uint64_t length = std::uint64_t{step.a.span} * blocks_.count;
    const bool is_exact = first % of == 0 && length % of == 0 && length / of % step.owners == 0;
    const bool is_whole = step.a.span == step.a.of;
    if (of * step.owners > ~0u) return fault(index, "its shards are too small to be named");
    if (step.owners == 1 || is_exact) return ok_status();
    if (is_whole && step.verb != Verb::kAllToAll) return ok_status();
    return fault(index, "only whole blocks or a whole fragment can be sharded: cuts of a part are rounded differently");
  }

  const Program& program_;
  const Blocks& blocks_;
  const Schedule& schedule_;
  std::uint32_t rank_;
};

Status check_groups(const Program& program) {
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    std::vector<std::int32_t> members = program.groups[g].members;
    std::sort(members.begin(), members.end());
    if (members.empty() || members.front() < 0 || members.back() >= static_cast<std::int32_t>(program.ranks.size()) ||
        std::adjacent_find(members.begin(), members.end()) != members.end()) {
      return internal_error(fmt::format("group {} ({}): its members must be distinct ranks of the program's {}", g,
                                        program.groups[g].name, program.ranks.size()));
    }
  }
  return ok_status();
}

Status match_messages(const Program& program, const Blocks& blocks, Wiring& wiring) {
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // from, to, channel, ordinal
  std::map<Key, std::uint32_t> receives;
  for (std::uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (std::uint32_t index = 0; index < program.ranks[rank].steps.size(); ++index) {
      const Step& step = program.ranks[rank].steps[index];
      if (step.kind != StepKind::kRecv) continue;
      receives[{static_cast<std::uint32_t>(step.peer), rank, step.channel, step.ordinal}] = index;
    }
  }
  for (std::uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (std::uint32_t index = 0; index < program.ranks[rank].steps.size(); ++index) {
      const Step& step = program.ranks[rank].steps[index];
      if (step.kind != StepKind::kSend) continue;
      const auto peer = static_cast<std::uint32_t>(step.peer);
      const auto found = receives.find({rank, peer, step.channel, step.ordinal});
      if (found == receives.end()) {
        return internal_error(fmt::format("{}: rank {} never receives it", describe(program, {rank, index}), peer));
      }
      const StepRef other{peer, found->second};
      if (!fits(step.a, program.ranks[peer].steps[other.step].target, blocks.crosses ? blocks.count : 1)) {
        return internal_error(fmt::format("{}: the receive it meets is for another part: {}",
                                          describe(program, {rank, index}), describe(program, other)));
      }
      wiring.other[rank][index] = other.step;
      wiring.other[peer][other.step] = index;
      receives.erase(found);
    }
  }
  if (receives.empty()) return ok_status();
  const auto& [key, index] = *receives.begin();
  const auto& [from, to, channel, ordinal] = key;
  return internal_error(fmt::format("{}: rank {} never sends it", describe(program, {to, index}), from));
}

Status check_call(const Program& program, const GroupCall& call) {
  const StepRef reference = call.members.front();
  const Step& expected = program.ranks[reference.rank].steps[reference.step];
  for (const StepRef& member : call.members) {
    const Step& step = program.ranks[member.rank].steps[member.step];
    const bool root_differs = is_rooted(step.verb) && step.peer != expected.peer;
    const bool part_differs = step.verb != Verb::kBarrier && !same_part(step.a, expected.a);
    if (step.verb == expected.verb && step.owners == expected.owners && !root_differs && !part_differs) continue;
    return internal_error(fmt::format("{}: the group's members make different calls: {}", describe(program, member),
                                      describe(program, reference)));
  }
  return ok_status();
}

Status match_groups(const Program& program, Wiring& wiring) {
  using Key = std::pair<std::uint32_t, std::uint8_t>;  // group, lane
  std::map<Key, std::map<std::uint32_t, std::vector<std::uint32_t>>> posted;
  for (std::uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (std::uint32_t index = 0; index < program.ranks[rank].steps.size(); ++index) {
      const Step& step = program.ranks[rank].steps[index];
      if (step.kind == StepKind::kGroup) posted[{step.group, step.lane}][rank].push_back(index);
    }
  }
  for (const auto& [key, by_rank] : posted) {
    const Group& group = program.groups[key.first];
    std::size_t calls = 0;
    for (const auto& [rank, steps] : by_rank) calls = std::max(calls, steps.size());
    for (std::size_t k = 0; k < calls; ++k) {
      GroupCall call{key.first, key.second, {}};
      std::int32_t missing = -1;
      for (std::int32_t member : group.members) {
        const auto rank = static_cast<std::uint32_t>(member);
        const auto found = by_rank.find(rank);
        if (found == by_rank.end() || found->second.size() <= k) {
          missing = member;
          continue;
        }
        call.members.push_back({rank, found->second[k]});
        wiring.other[rank][found->second[k]] = static_cast<std::uint32_t>(wiring.calls.size());
      }
      if (missing >= 0) {
        return internal_error(fmt::format("{}: rank {} never posts call {} of {}, lane {}",
                                          describe(program, call.members.front()), missing, k, group.name, key.second));
      }
      FOLDCAST_RETURN_IF_ERROR(check_call(program, call));
      wiring.calls.push_back(std::move(call));
    }
  }
  return ok_status();
}

}  // namespace

std::string describe(const Program& program, StepRef where) {
  return fmt::format("rank {}, step {} ({})", where.rank, where.step,
                     to_string(program.ranks[where.rank].steps[where.step]));
}

Result<Wiring> wire(const Program& program, const Blocks& blocks) {
  FOLDCAST_RETURN_IF_ERROR(check_groups(program));
  Wiring wiring;
  for (std::uint32_t rank = 0; rank < program.ranks.size(); ++rank) {
    FOLDCAST_RETURN_IF_ERROR(ShapeCheck(program, blocks, rank).run());
    wiring.other.emplace_back(program.ranks[rank].steps.size(), Wiring::kNone);
  }
  FOLDCAST_RETURN_IF_ERROR(match_messages(program, blocks, wiring));
  FOLDCAST_RETURN_IF_ERROR(match_groups(program, wiring));
  return wiring;
}

}  // namespace foldcast::schedule
