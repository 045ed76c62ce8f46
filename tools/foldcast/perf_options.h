#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
#include "core/base/config.h"
#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "core/base/status.h"
#include "tools/foldcast/perf_sizes.h"

namespace foldcast::tools {

/// Which way was asked for; what ran may differ (see PerfRecord).
enum class PerfPath : std::uint8_t { kAuto, kOffload, kHost };
std::string_view to_string(PerfPath path);

/// The command line as it was typed. Numbers stay text, so that one place turns them into values or one clear line.
struct PerfFlags {
  std::string collective = "all_reduce";
  std::string min_bytes = "8";
  std::string max_bytes = "64M";
  std::string step_bytes;
  std::string factor;
  std::string iterations = "20";
  std::string warmup = "5";
  std::string seconds = "2";
  std::string datatypes = "float32";
  std::string ops = "sum";
  std::string check = "1";
  std::string blocking = "0";
  std::string across = "1";
  std::string paths;                    ///< empty: FOLDCAST_PATH
  std::string plan;                     ///< empty: FOLDCAST_PLAN
  std::string paths_source = "--path";  ///< what the two above were given with, for errors
  std::string plan_source = "--plan";
  std::string sizes_from;
  std::string root = "0";
  std::string wire = "exact";
  std::string test_every = "0";
  std::string json;
  std::string plot;
  bool in_place = false;
  bool overlap = false;
};

/// As root: every rank in turn.
inline constexpr int kAllRoots = -1;

/// Which rank's time a call has, numbered as nccl-tests do.
enum class PerfAcross : std::uint8_t { kRank0 = 0, kAverage = 1, kLeast = 2, kMost = 3 };

/// What to measure, valid and complete.
struct PerfOptions {
  Collective collective = Collective::kAllReduce;
  std::vector<PerfSize> sizes;
  std::string size_rule;  ///< for the header: "8 to 64M, x4"
  std::vector<Datatype> datatypes;
  std::vector<ReduceOp> ops;
  std::vector<PerfPath> paths;
  std::string plan;
  std::uint64_t iterations = 20;
  std::uint64_t warmup = 5;
  double seconds = 2;  ///< per size and path; 0: no bound
  bool check = true;
  bool blocking = false;
  PerfAcross across = PerfAcross::kAverage;
  bool in_place = false;
  bool overlap = false;
  double test_every_us = 0;  ///< 0: never
  int root = 0;              ///< or kAllRoots
  WireFormat wire = WireFormat::kExact;
  std::string sizes_from;
  std::string json;
  std::string plot;

  /// The ops that are defined for `dtype`; one where the collective has none.
  std::vector<ReduceOp> ops_of(Datatype dtype) const;
};

/// The path and plan that the settings name, where the flags do not: a call is measured as the job would make it.
PerfFlags with_settings(PerfFlags flags, const Config& config);

/// kInvalidArgument or kUnavailable with one line that names the flag, its value and what is expected.
Result<PerfOptions> validate(const PerfFlags& flags);

/// Whether --plan applies to calls on `path`: "tree" and "...+tree" name the aggregation tree, every other name a way
/// between hosts. So `--plan ring --path offload,host` compares the tree with the ring.
bool plan_applies(std::string_view plan, PerfPath path);

}  // namespace foldcast::tools
