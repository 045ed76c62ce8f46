#include "core/schedule/program.h"

#include <numeric>
#include <utility>
#include <vector>

namespace foldcast::schedule {

Program build_program(std::string name, std::uint32_t ranks, const std::function<void(Builder&)>& build) {
  Program program;
  program.name = std::move(name);
  program.ranks.reserve(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Builder builder(static_cast<std::int32_t>(rank));
    build(builder);
    program.ranks.push_back(builder.finish());
  }
  return program;
}

Program build_flat(const AllReduceEntry& algorithm, std::uint32_t ranks) {
  std::vector<std::int32_t> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  return build_program(std::string(algorithm.name), ranks, [&](Builder& builder) {
    Stage stage;
    stage.members = members;
    stage.self = builder.rank();
    stage.source = {Space::kInput, 0, 1, 1};
    stage.target = {Space::kOutput, 0, 1, 1};
    algorithm.build(builder, stage);
  });
}

}  // namespace foldcast::schedule
