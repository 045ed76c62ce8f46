#include "core/schedule/algorithms/all_reduce.h"

#include <string>

namespace foldcast::schedule {
namespace {

constexpr AllReduceEntry kAlgorithms[] = {
    {"ring", all_reduce_ring},
    {"recursive_doubling", all_reduce_recursive_doubling},
    {"halving_doubling", all_reduce_halving_doubling},
    {"double_tree", all_reduce_double_tree},
};

}  // namespace

std::span<const AllReduceEntry> all_reduce_algorithms() { return kAlgorithms; }

Result<AllReduceEntry> find_all_reduce(std::string_view name) {
  std::string known;
  for (const AllReduceEntry& entry : kAlgorithms) {
    if (entry.name == name) return entry;
    known += known.empty() ? "" : ", ";
    known += entry.name;
  }
  return invalid_argument("no all-reduce algorithm is called \"" + std::string(name) + "\"; the names are " + known);
}

}  // namespace foldcast::schedule
