#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/foldcast/commands.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_run.h"

namespace foldcast::tools {

void add_perf(CLI::App& app) {
  CLI::App* perf = app.add_subcommand(
      "perf",
      "Measure a collective on every path, check its results and compare the paths; run by every rank of a job");
  // Lives as long as the callback that reads it.
  auto flags = std::make_shared<PerfFlags>();
  // Empty when given without a value, as nccl-tests' switch is here too.
  auto blocking = std::make_shared<std::vector<std::string>>();
  perf->add_option("collective", flags->collective,
                   "What to measure: all_reduce, reduce, broadcast, reduce_scatter, all_gather,\n"
                   "all_to_all, gather, scatter, send_recv, barrier, or with counts that vary by rank\n"
                   "reduce_scatterv, all_gatherv, all_to_allv, gatherv, scatterv")
      ->required();
  perf->add_option("-b,--minbytes", flags->min_bytes, "Smallest size, bytes with K, M or G")->capture_default_str();
  perf->add_option("-e,--maxbytes", flags->max_bytes, "Largest size")->capture_default_str();
  perf->add_option("-i,--stepbytes", flags->step_bytes, "Sizes grow by this many bytes, in place of -f");
  perf->add_option("-f,--stepfactor", flags->factor, "Sizes grow by this factor (default 4)");
  perf->add_option("--sizes-from", flags->sizes_from, "File with one size in bytes a line, in place of -b -e -i -f")
      ->excludes("-b")
      ->excludes("-e")
      ->excludes("-i")
      ->excludes("-f");
  perf->add_option("-n,--iters", flags->iterations, "Timed calls a size and path, at most")->capture_default_str();
  perf->add_option("-w,--warmup_iters", flags->warmup, "Untimed calls before them, at most")->capture_default_str();
  perf->add_option("-a,--average", flags->across,
                   "A call's time: 0 rank 0's, 1 the ranks' average, 2 the least, 3 the most")
      ->capture_default_str();
  perf->add_option("--seconds", flags->seconds, "End a size and path after this time, but not before 5 calls; 0: never")
      ->capture_default_str();
  perf->add_option("-d,--datatype", flags->datatypes, "Datatypes, separated by commas, or all")->capture_default_str();
  perf->add_option(
          "-o,--op", flags->ops,
          "Reductions, separated by commas, or all: sum, prod, min, max, avg, land, lor, lxor, band, bor, bxor, "
          "premul_sum")
      ->capture_default_str();
  perf->add_option("-c,--check", flags->check, "Check results against an exact reference (1) or not (0)")
      ->capture_default_str();
  perf->add_option("-z,--blocking", *blocking, "A barrier after every timed call (1) or not (0, the default)")
      ->expected(0, 1);
  perf->add_option("-r,--root", flags->root, "Root of reduce, broadcast, gather and scatter; -1: all ranks in turn")
      ->capture_default_str();
  perf->add_option("--wire", flags->wire,
                   "How float32 of reductions travels between nodes: exact, bfloat16, float16, float8")
      ->capture_default_str();
  perf->add_flag("--overlap", flags->overlap, "Time non-blocking calls, and beside a computation as long as they take");
  perf->add_option("--test-every", flags->test_every,
                   "With --overlap: ask for progress every so many microseconds of the computation; 0: never")
      ->capture_default_str();
  perf->add_flag("--in-place", flags->in_place, "Time in-place calls (the check does both)");
  perf->add_option("--path", flags->paths,
                   "Paths to compare, separated by commas: offload, host, auto (default: FOLDCAST_PATH)");
  perf->add_option("--plan", flags->plan, "Force a plan by name, on the paths that have it (default: FOLDCAST_PLAN)");
  perf->add_option("-J,--json", flags->json, "Write the records there");
  perf->add_option("--plot", flags->plot, "Draw them there, as SVG (needs gnuplot)");
  perf->callback([perf, flags, blocking] {
    if (perf->count("-z") > 0)
      flags->blocking = blocking->empty() || blocking->front().empty() ? "1" : blocking->front();
    Result<Config> config = Config::from_environment();
    if (!config.ok()) fail("foldcast perf", config.status());
    Result<PerfOptions> options = validate(with_settings(*flags, *config));
    if (!options.ok()) fail("foldcast perf", options.status());
    finish(run_perf(*options, stdout));
  });
}

}  // namespace foldcast::tools
