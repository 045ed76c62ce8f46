#include "tools/foldcast/perf_barrier.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

constexpr int kMostRounds = 8;
constexpr auto kLate = std::chrono::milliseconds(5);

/// What a rank tells of one barrier.
constexpr std::size_t kMachine = 0;
constexpr std::size_t kCame = 1;
constexpr std::size_t kLeft = 2;
constexpr std::size_t kFields = 3;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

std::int64_t machine() {
  std::string boot = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  return static_cast<std::int64_t>(std::hash<std::string>{}(boot));
}

}  // namespace

int BarrierCheck::rounds() const { return std::min(job_.size(), kMostRounds); }

std::int64_t BarrierCheck::round(int late) {
  auto ranks = static_cast<std::size_t>(job_.size());
  // Everybody else's row is zero, so that the sum is everybody's row.
  std::vector<std::int64_t> rows(kFields * ranks, 0);
  std::int64_t* mine = rows.data() + kFields * static_cast<std::size_t>(job_.rank());
  if (late == job_.rank()) std::this_thread::sleep_for(kLate);
  mine[kMachine] = machine();
  mine[kCame] = now_ns();
  job_.comm().barrier();
  mine[kLeft] = now_ns();
  job_.agree(rows, FOLDCAST_SUM);
  std::int64_t wrong = 0;
  for (std::size_t a = 0; a < ranks; ++a) {
    const std::int64_t* left = rows.data() + kFields * a;
    for (std::size_t b = 0; b < ranks; ++b) {
      const std::int64_t* came = rows.data() + kFields * b;
      if (left[kMachine] != came[kMachine] || left[kLeft] >= came[kCame]) continue;
      ++wrong;
      break;
    }
  }
  return wrong;
}

}  // namespace foldcast::tools
