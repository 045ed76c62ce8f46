#include "kernels/user_op.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include <fmt/format.h>

namespace foldcast::kernels {
namespace {

/// Writers hold the lock; a reader needs only the slot, whose release store makes the op's fields visible.
struct Registry {
  std::mutex lock;
  std::array<std::atomic<const UserOp*>, kMaxUserOps> slots{};
};

/// Never destroyed: ops may be looked up while the process ends.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

/// kMaxUserOps or more if `op` is not a user's.
std::size_t slot_of(ReduceOp op) {
  if (!is_user(op)) return kMaxUserOps;
  return static_cast<std::size_t>(op) - static_cast<std::size_t>(ReduceOp::kFirstUser);
}

}  // namespace

Result<ReduceOp> register_user_op(const UserOp& op) {
  if (op.function == nullptr) return invalid_argument("a user's reduction needs a function");
  Registry& all = registry();
  const std::lock_guard guard(all.lock);
  for (std::size_t slot = 0; slot < kMaxUserOps; ++slot) {
    if (all.slots[slot].load(std::memory_order_relaxed) != nullptr) continue;
    all.slots[slot].store(std::make_unique<UserOp>(op).release(), std::memory_order_release);
    return static_cast<ReduceOp>(static_cast<std::size_t>(ReduceOp::kFirstUser) + slot);
  }
  return resource_exhausted(fmt::format("all {} user reductions are taken; free one first", kMaxUserOps));
}

Status unregister_user_op(ReduceOp op) {
  const std::size_t slot = slot_of(op);
  Registry& all = registry();
  const std::lock_guard guard(all.lock);
  const std::unique_ptr<const UserOp> freed(
      slot < kMaxUserOps ? all.slots[slot].exchange(nullptr, std::memory_order_acq_rel) : nullptr);
  if (freed != nullptr) return ok_status();
  return invalid_argument(fmt::format("{} is no registered user reduction", static_cast<int>(op)));
}

const UserOp* find_user_op(ReduceOp op) {
  const std::size_t slot = slot_of(op);
  return slot < kMaxUserOps ? registry().slots[slot].load(std::memory_order_acquire) : nullptr;
}

}  // namespace foldcast::kernels
