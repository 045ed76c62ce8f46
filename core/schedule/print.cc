#include "core/schedule/print.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <tuple>
#include <vector>

namespace foldcast::schedule {
namespace {

using Output = std::back_insert_iterator<std::string>;

std::string count_of(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

/// Per step, the steps it waits for, ascending.
std::vector<std::vector<std::uint32_t>> waits_of(const Schedule& schedule) {
  std::vector<std::vector<std::uint32_t>> waits(schedule.steps.size());
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    for (std::uint32_t i = schedule.dependants_begin[step]; i < schedule.dependants_begin[step + 1]; ++i) {
      waits[schedule.dependants[i]].push_back(step);
    }
  }
  return waits;
}

/// Messages by where they go, as the executor matches them. Works on programs that do not verify, too: those are the
/// ones people draw.
void draw_messages(const Program& program, Output out) {
  std::map<std::tuple<std::size_t, std::size_t, std::uint32_t, std::uint32_t>, std::size_t> receives;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (std::size_t index = 0; index < program.ranks[rank].steps.size(); ++index) {
      const Step& step = program.ranks[rank].steps[index];
      if (step.kind == StepKind::kRecv) {
        receives[{static_cast<std::size_t>(step.peer), rank, step.channel, step.ordinal}] = index;
      }
    }
  }
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (std::size_t index = 0; index < program.ranks[rank].steps.size(); ++index) {
      const Step& step = program.ranks[rank].steps[index];
      if (step.kind != StepKind::kSend) continue;
      const auto peer = static_cast<std::size_t>(step.peer);
      const auto found = receives.find({rank, peer, step.channel, step.ordinal});
      if (found == receives.end()) continue;
      fmt::format_to(out, "  r{}s{} -> r{}s{} [style=dashed, constraint=false];\n", rank, index, peer, found->second);
    }
  }
}

/// A diamond for each call of a group, joined to the members' steps.
void draw_calls(const Program& program, Output out) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, bool> drawn;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> posted;
    for (std::size_t index = 0; index < program.ranks[rank].steps.size(); ++index) {
      const Step& step = program.ranks[rank].steps[index];
      if (step.kind != StepKind::kGroup) continue;
      const std::uint32_t lane = step.lane;
      const std::size_t call = posted[{step.group, lane}]++;
      const std::string node = fmt::format("g{}l{}c{}", step.group, lane, call);
      if (drawn.try_emplace({step.group, lane, call}, true).second) {
        const bool known = step.group < program.groups.size();
        fmt::format_to(out, "  {} [shape=diamond, label=\"{}\"];\n", node,
                       known ? program.groups[step.group].name : fmt::format("group {}", step.group));
      }
      fmt::format_to(out, "  r{}s{} -> {} [style=dashed, dir=both, constraint=false];\n", rank, index, node);
    }
  }
}

}  // namespace

std::string print_text(const Program& program) {
  std::string text;
  const Output out(text);
  fmt::format_to(out, "{}: {}\n", program.name, count_of(program.ranks.size(), "rank"));
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    const Group& group = program.groups[g];
    fmt::format_to(out, "group {}: {} ({}), ranks", g, group.name, group.kind == GroupKind::kNode ? "node" : "tree");
    for (std::int32_t member : group.members) fmt::format_to(out, " {}", member);
    text += '\n';
  }
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Schedule& schedule = program.ranks[rank];
    const auto waits = waits_of(schedule);
    fmt::format_to(out, "rank {}: {}, {}\n", rank, count_of(schedule.steps.size(), "step"),
                   count_of(schedule.scratch_units, "scratch unit"));
    for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
      fmt::format_to(out, "{:>5}  {}", index, to_string(schedule.steps[index]));
      for (std::size_t i = 0; i < waits[index].size(); ++i) {
        fmt::format_to(out, "{}{}", i == 0 ? "; after " : ", ", waits[index][i]);
      }
      text += '\n';
    }
  }
  return text;
}

std::string print_graphviz(const Program& program) {
  std::string text;
  const Output out(text);
  fmt::format_to(out, "digraph \"{}\" {{\n  rankdir=TB;\n  node [shape=box, fontsize=10];\n", program.name);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Schedule& schedule = program.ranks[rank];
    fmt::format_to(out, "  subgraph cluster_{} {{\n    label=\"rank {}\";\n", rank, rank);
    for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
      fmt::format_to(out, "    r{}s{} [label=\"{}\"];\n", rank, index, to_string(schedule.steps[index]));
    }
    for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
      for (std::uint32_t i = schedule.dependants_begin[index]; i < schedule.dependants_begin[index + 1]; ++i) {
        fmt::format_to(out, "    r{}s{} -> r{}s{};\n", rank, index, rank, schedule.dependants[i]);
      }
    }
    text += "  }\n";
  }
  draw_messages(program, out);
  draw_calls(program, out);
  return text + "}\n";
}

}  // namespace foldcast::schedule
