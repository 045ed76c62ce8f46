#pragma once

#include <cstdint>
#include <vector>

#include "core/api/foldcast.hpp"

namespace foldcast::tools {

/// How much of a call's time can be spent computing, as OSU's non-blocking benchmarks define it.
struct Overlap {
  double compute_us = 0;  ///< of the computation alone, about as long as the call alone
  double total_us = 0;    ///< of both: call started, computed, waited for
  /// 100 (1 - (total - compute) / call), between 0 and 100; 0 where the call takes no time.
  double percent = 0;
  static Overlap of(double call_us, double compute_us, double total_us);
};

/// Computes without touching memory worth mentioning or calling anything. One thread.
class ComputeLoop {
 public:
  /// Measures its own speed, for some milliseconds.
  ComputeLoop();

  /// Computes for about `us`.
  void run(double us);
  /// The same, but asks after the requests every `every_us` of it (0: never), which lets a library without threads of
  /// its own make progress. Requests that are over are not asked again.
  void run_beside(double us, double every_us, std::vector<api::Request>& requests);

 private:
  void compute(std::uint64_t units);

  double us_per_unit_ = 1;
  double values_[8];
};

}  // namespace foldcast::tools
