#include "core/api/premul.h"

#include <mutex>

namespace foldcast::api {
namespace {

struct Table {
  std::mutex mutex;
  std::array<std::optional<Multiplier>, kMaxPremulOps> slots;
};

Table& table() {
  static Table instance;
  return instance;
}

std::size_t slot_of(ReduceOp op) { return static_cast<std::size_t>(op) - kFirstPremulOp; }

}  // namespace

Result<ReduceOp> add_multiplier(const Multiplier& multiplier) {
  Table& all = table();
  const std::scoped_lock lock(all.mutex);
  for (std::size_t slot = 0; slot < kMaxPremulOps; ++slot) {
    if (all.slots[slot]) continue;
    all.slots[slot] = multiplier;
    return static_cast<ReduceOp>(kFirstPremulOp + slot);
  }
  return resource_exhausted(std::to_string(kMaxPremulOps) + " pre-multiplied sums exist: destroy some");
}

Status remove_multiplier(ReduceOp op) {
  Table& all = table();
  const std::scoped_lock lock(all.mutex);
  if (!is_premul(op) || !all.slots[slot_of(op)]) {
    return invalid_argument("op " + std::to_string(static_cast<int>(op)) + " was not created");
  }
  all.slots[slot_of(op)].reset();
  return ok_status();
}

std::optional<Multiplier> find_multiplier(ReduceOp op) {
  Table& all = table();
  const std::scoped_lock lock(all.mutex);
  return is_premul(op) ? all.slots[slot_of(op)] : std::nullopt;
}

}  // namespace foldcast::api
