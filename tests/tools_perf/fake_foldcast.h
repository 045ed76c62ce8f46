#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/api/foldcast.h"

namespace foldcast::tools::testing {

/// How the library that foldcast perf is tested against behaves. Ranks are processes that share one mapping; each
/// reduces serially, in numbers of the tests' own. It makes on purpose the mistakes that perf has to find.
struct FakeBehaviour {
  int ranks = 1;
  int ranks_per_node = 1;
  bool offload = true;             ///< an aggregation tree is there
  std::size_t unsupported_at = 0;  ///< this many elements are refused when planning; 0: none
  /// Bit 0 of the first byte of the result is flipped on this rank, on this path; -1: nowhere.
  int flip_rank = -1;
  foldcast_path_t flip_path = FOLDCAST_PATH_OFFLOAD;
  bool flip_last = false;  ///< of the last element instead
  /// This rank writes one byte to its receive buffer where nothing belongs: before its start, behind the end of what it
  /// gets, or to its send buffer (of a call that is not in place); -1: nowhere.
  int stray_rank = -1;
  enum class Stray : std::uint8_t { kBefore, kBehind, kInput } stray = Stray::kBehind;
  /// On this rank the call with this number is of another datatype than on the others; -1: on none.
  int mismatch_rank = -1;
  int mismatch_call = 0;
  /// Float32 of every reduction of more than a few elements travels as float8, whatever was asked for.
  bool lossy = false;
  /// Ranks leave a barrier without waiting for the others.
  bool barrier_leaks = false;
  /// This rank is killed in its n-th call.
  int kill_rank = -1;
  int kill_call = 0;
  double timeout_s = 20;        ///< until a rank that does not come is reported
  double host_us_per_byte = 0;  ///< time added to each call; of non-blocking ones in the background
  double offload_us = 0;
};

/// Runs `body` as each rank in a process of its own and returns rank 0's exit code, or 128 + its signal. `others` (if
/// not null) gets the number of the other ranks that ended with `body` returning non-zero. Bounded by the fake's own
/// time-out.
int run_ranks(const FakeBehaviour& behaviour, const std::function<int()>& body, int* others = nullptr);

}  // namespace foldcast::tools::testing
