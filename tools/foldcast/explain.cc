#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/foldcast/commands.h"
#include "tools/foldcast/perf_job.h"
#include "tools/foldcast/perf_options.h"
#include "tools/foldcast/perf_rows.h"

namespace foldcast::tools {
namespace {

enum class Answer : std::uint8_t { kChoice, kSteps, kGraph };

std::string ask(PerfJob& job, const PerfCase& one, Answer answer) {
  switch (answer) {
    case Answer::kSteps:
      return job.comm().steps(one.shape(), FOLDCAST_STEPS_TEXT);
    case Answer::kGraph:
      return job.comm().steps(one.shape(), FOLDCAST_STEPS_GRAPHVIZ);
    case Answer::kChoice:
      break;
  }
  return job.comm().explain(one.shape());
}

/// Prints the answers on rank 0; returns the exit code. Ends at the first one that is not the same on every rank.
int explain(const PerfOptions& options, Answer answer) {
  PerfJob job;
  for (const std::vector<PerfCase>& row : rows_of(options, job.size())) {
    for (const PerfCase& one : row) {
      job.use(one.path, plan_applies(options.plan, one.path) ? options.plan : std::string(), options.wire);
      std::string text = ask(job, one, answer);
      if (job.rank() == 0) {
        fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
        std::fflush(stdout);
      }
      if (job.are_equal_everywhere(std::as_bytes(std::span(text)))) continue;
      fmt::print(stderr,
                 "foldcast explain: the ranks explain {} of {} differently (this is rank {}); their settings differ: "
                 "compare foldcast config on all of them\n",
                 to_string(one.collective), to_string(one), job.rank());
      return kExitFailure;
    }
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain",
      "Which plan and path a call would take, and each rejected candidate with its reason and price; or its steps");
  auto flags = std::make_shared<PerfFlags>();
  command->add_option("collective", flags->collective, "What to explain: any collective that foldcast perf knows")
      ->required();
  command->add_option("-b,--bytes", flags->min_bytes, "Size of the larger buffer, bytes with K, M or G")->required();
  command->add_option("-d,--datatype", flags->datatypes, "Datatypes, separated by commas, or all")
      ->capture_default_str();
  command->add_option("-o,--op", flags->ops, "Reductions, separated by commas, or all")->capture_default_str();
  command->add_option("-r,--root", flags->root, "Root of reduce, broadcast, gather and scatter; -1: all ranks in turn")
      ->capture_default_str();
  command->add_option("--wire", flags->wire, "As if float32 travelled so: exact, bfloat16, float16, float8")
      ->capture_default_str();
  auto steps = std::make_shared<bool>(false);
  auto graph = std::make_shared<bool>(false);
  CLI::Option* as_text =
      command->add_flag("--steps", *steps, "The chosen plan's steps on every rank, in place of the choice");
  command->add_flag("--dot", *graph, "The same as a Graphviz graph: foldcast explain ... --dot | dot -Tsvg")
      ->excludes(as_text);
  command->add_option("--path", flags->paths,
                      "As if only this path was allowed: offload, host; auto: both (default: FOLDCAST_PATH)");
  command->add_option("--plan", flags->plan, "As if this plan was forced");
  command->callback([flags, steps, graph] {
    flags->max_bytes = flags->min_bytes;
    Result<Config> config = Config::from_environment();
    if (!config.ok()) fail("foldcast explain", config.status());
    Result<PerfOptions> options = validate(with_settings(*flags, *config));
    if (!options.ok()) fail("foldcast explain", options.status());
    int code = kExitFailure;
    try {
      code = explain(*options, *graph ? Answer::kGraph : *steps ? Answer::kSteps : Answer::kChoice);
    } catch (const UsageError& error) {
      fmt::print(stderr, "foldcast explain: {}\n", error.what());
      code = kExitUsage;
    } catch (const std::exception& error) {
      fmt::print(stderr, "foldcast explain: {}\n", error.what());
      code = exit_code_of(error);
    }
    finish(code);
  });
}

}  // namespace foldcast::tools
