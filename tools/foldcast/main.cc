#include <cstdio>
#include <exception>

#include "tools/foldcast/commands.h"

namespace foldcast::tools {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Foldcast: collectives that are reduced in the network where that wins, and on the hosts elsewhere",
               "foldcast");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    std::string name = failed->get_name().empty() ? "foldcast" : failed->get_name();
    return name + ": " + error.what() + "; see foldcast --help\n";
  });
  add_run(app);
  add_lab(app);
  add_perf(app);
  add_info(app);
  add_explain(app);
  add_config(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& end) {  // a subcommand's own end, which has said what there is to say
    return end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    // Help and version count as errors to CLI11, with exit code 0.
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
}

}  // namespace
}  // namespace foldcast::tools

int main(int argc, char** argv) {
  try {
    return foldcast::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "foldcast: %s\n", error.what());
    return foldcast::tools::kExitFailure;
  }
}
