#include "core/base/fork.h"

#include <pthread.h>

#include <atomic>

namespace foldcast {
namespace {

std::atomic<std::uint32_t> generation{0};

}  // namespace

std::uint32_t process_generation() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace foldcast
