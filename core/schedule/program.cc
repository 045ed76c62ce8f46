#include "core/schedule/program.h"

#include <numeric>
#include <utility>
#include <variant>
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

Program build_flat(const Algorithm& algorithm, std::uint32_t ranks, std::int32_t root, bool in_place) {
  std::vector<std::int32_t> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  std::vector<Part> blocks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) blocks.push_back({rank, ranks, 1});
  return build_program(std::string(algorithm.name), ranks, [&](Builder& builder) {
    if (const auto* build = std::get_if<StageAlgorithm>(&algorithm.build)) {
      Stage stage;
      stage.members = members;
      stage.self = builder.rank();
      stage.root = root;
      stage.source = {Space::kInput, 0, 1, 1};
      stage.target = {Space::kOutput, 0, 1, 1};
      (*build)(builder, stage);
    } else {
      BlockStage stage;
      stage.members = members;
      stage.self = builder.rank();
      stage.root = root;
      stage.blocks = blocks;
      stage.source = {Space::kInput, 0};
      stage.target = {Space::kOutput, 0};
      stage.in_place = in_place;
      std::get<BlockAlgorithm>(algorithm.build)(builder, stage);
    }
  });
}

}  // namespace foldcast::schedule
