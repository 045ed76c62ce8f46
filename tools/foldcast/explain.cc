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

namespace foldcast::tools {
namespace {

struct Question {
  std::uint64_t bytes;
  Datatype dtype;
  ReduceOp op;
  PerfPath path;
};

std::vector<Question> questions_of(const PerfOptions& options) {
  std::vector<Question> questions;
  for (Datatype dtype : options.datatypes) {
    for (ReduceOp op : options.ops) {
      for (const PerfSize& size : whole_elements(options.sizes, dtype)) {
        for (PerfPath path : options.paths) questions.push_back({size.bytes, dtype, op, path});
      }
    }
  }
  return questions;
}

/// Prints the answers on rank 0; returns the exit code. Ends at the first one that is not the same on every rank.
int explain(const PerfOptions& options) {
  PerfJob job;
  for (const Question& one : questions_of(options)) {
    job.use(one.path, plan_applies(options.plan, one.path) ? options.plan : std::string());
    std::string text =
        job.comm().explain_all_reduce(one.bytes / size_of(one.dtype), static_cast<foldcast_datatype_t>(one.dtype),
                                      static_cast<foldcast_op_t>(one.op));
    if (job.rank() == 0) {
      fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
      std::fflush(stdout);
    }
    if (job.are_equal_everywhere(std::as_bytes(std::span(text)))) continue;
    fmt::print(
        stderr,
        "foldcast explain: the ranks explain {} bytes {} {} differently (this is rank {}); their settings differ: "
        "compare foldcast config on all of them\n",
        one.bytes, to_string(one.dtype), to_string(one.op), job.rank());
    return kExitFailure;
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Which plan and path a call would take, and each rejected candidate with its reason and price");
  auto flags = std::make_shared<PerfFlags>();
  command->add_option("collective", flags->collective, "What to explain: all_reduce")->required();
  command->add_option("-b,--bytes", flags->min_bytes, "Size of the buffer, bytes with K, M or G")->required();
  command->add_option("-d,--datatype", flags->datatypes, "Datatypes, separated by commas, or all")
      ->capture_default_str();
  command->add_option("-o,--op", flags->ops, "Reductions, separated by commas, or all")->capture_default_str();
  command->add_option("--path", flags->paths,
                      "As if only this path was allowed: offload, host; auto: both (default: FOLDCAST_PATH)");
  command->add_option("--plan", flags->plan, "As if this plan was forced");
  command->callback([flags] {
    flags->max_bytes = flags->min_bytes;
    Result<Config> config = Config::from_environment();
    if (!config.ok()) fail("foldcast explain", config.status());
    Result<PerfOptions> options = validate(with_settings(*flags, *config));
    if (!options.ok()) fail("foldcast explain", options.status());
    int code = kExitFailure;
    try {
      code = explain(*options);
    } catch (const std::exception& error) {
      fmt::print(stderr, "foldcast explain: {}\n", error.what());
      code = exit_code_of(error);
    }
    finish(code);
  });
}

}  // namespace foldcast::tools
