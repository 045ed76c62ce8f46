#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "core/base/status.h"

namespace foldcast::api {

/// What a rank's contribution to a pre-multiplied sum is multiplied by.
struct Multiplier {
  Datatype dtype = Datatype::kFloat32;
  std::array<std::byte, 8> value{};  ///< one element
};

/// The multipliers of this process, by op number. Any thread.
Result<ReduceOp> add_multiplier(const Multiplier& multiplier);
Status remove_multiplier(ReduceOp op);
std::optional<Multiplier> find_multiplier(ReduceOp op);

constexpr bool is_premul(ReduceOp op) { return static_cast<std::size_t>(op) >= kFirstPremulOp; }

}  // namespace foldcast::api
