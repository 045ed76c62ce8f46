#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools_perf/fake_foldcast.h"

/// What the files of the fake library share.
struct foldcast_comm {
  foldcast_path_t path = FOLDCAST_PATH_AUTO;
  foldcast_wire_format_t wire = FOLDCAST_WIRE_EXACT;
  std::string plan;
  std::string text;
  int calls = 0;
  foldcast_path_t runs_on() const;
};

/// Its data has arrived; it is over when its time is.
struct foldcast_request {
  std::chrono::steady_clock::time_point over;
};

namespace foldcast::tools::testing {

inline constexpr std::size_t kRoom = 2u << 20;  // of one rank's contribution
inline constexpr int kMostRanks = 16;

/// What all ranks of a call must ask for alike, and how much each sends to whom.
struct FakeHeader {
  int kind;
  int dtype;
  int op;
  int root;
  std::size_t count;
  std::size_t sends[kMostRanks];
};

/// In shared memory.
struct FakeShared {
  FakeBehaviour behaviour;
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> round;
  FakeHeader headers[kMostRanks];
  std::byte* contributions;
};

extern FakeShared* shared;  ///< set before the ranks are forked
extern int this_rank;

std::byte* contribution(int rank);
/// Returns when all ranks have come, or false when one did not within the time-out.
bool meet();
/// Of the calling thread.
foldcast_result_t fail(foldcast_result_t code, std::string message);

/// What premul_sum multiplies with, by op from 64 on.
struct FakePremul {
  foldcast_datatype_t dtype;
  std::byte scalar[8];
};
std::vector<FakePremul>& premuls();

}  // namespace foldcast::tools::testing
