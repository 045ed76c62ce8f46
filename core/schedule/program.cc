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

namespace {

void append_flat(Builder& builder, const Algorithm& algorithm, const FlatCall& call) {
  builder.set_rounding(call.rounds);
  std::vector<std::int32_t> members(call.ranks);
  std::iota(members.begin(), members.end(), 0);
  if (const auto* build = std::get_if<StageAlgorithm>(&algorithm.build)) {
    Stage stage;
    stage.members = members;
    stage.self = builder.rank();
    stage.root = call.root;
    stage.source = {Space::kInput, 0, 1, 1};
    stage.target = {Space::kOutput, 0, 1, 1};
    (*build)(builder, stage);
    return;
  }
  std::vector<Part> blocks;
  blocks.reserve(call.ranks);
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank) blocks.push_back({rank, call.ranks, 1});
  BlockStage stage;
  stage.members = members;
  stage.self = builder.rank();
  stage.root = call.root;
  stage.blocks = blocks;
  stage.source = {Space::kInput, 0};
  stage.target = {Space::kOutput, 0};
  stage.in_place = call.in_place;
  std::get<BlockAlgorithm>(algorithm.build)(builder, stage);
}

}  // namespace

Schedule build_one(const Algorithm& algorithm, const FlatCall& call, std::int32_t rank) {
  Builder builder(rank);
  append_flat(builder, algorithm, call);
  return builder.finish();
}

Program build_flat(const Algorithm& algorithm, const FlatCall& call) {
  return build_program(std::string(algorithm.name), call.ranks,
                       [&](Builder& builder) { append_flat(builder, algorithm, call); });
}

}  // namespace foldcast::schedule
