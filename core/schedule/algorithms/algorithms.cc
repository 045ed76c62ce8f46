#include "core/schedule/algorithms/algorithms.h"

#include <fmt/format.h>

#include <string>

#include "core/schedule/algorithms/all_reduce.h"

namespace foldcast::schedule {
namespace {

constexpr bool kKeepsOrder = true;
constexpr bool kAdjacent = true;

constexpr Algorithm kAllReduce[] = {
    {"ring", Collective::kAllReduce, !kKeepsOrder, !kAdjacent, all_reduce_ring},
    {"recursive_doubling", Collective::kAllReduce, kKeepsOrder, !kAdjacent, all_reduce_recursive_doubling},
    {"halving_doubling", Collective::kAllReduce, kKeepsOrder, !kAdjacent, all_reduce_halving_doubling},
    {"double_tree", Collective::kAllReduce, !kKeepsOrder, !kAdjacent, all_reduce_double_tree},
};

}  // namespace

std::span<const Algorithm> algorithms_of(Collective kind) {
  switch (scheduled_as(kind)) {
    case Collective::kAllReduce:
      return kAllReduce;
    default:
      return {};
  }
}

Result<Algorithm> find_algorithm(Collective kind, std::string_view name) {
  std::string known;
  for (const Algorithm& algorithm : algorithms_of(kind)) {
    if (algorithm.name == name) return algorithm;
    known += known.empty() ? "" : ", ";
    known += algorithm.name;
  }
  return invalid_argument(
      fmt::format("no algorithm of {} is called \"{}\"; the names are {}", to_string(kind), name, known));
}

}  // namespace foldcast::schedule
