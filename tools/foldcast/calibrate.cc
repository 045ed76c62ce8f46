#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "core/api/foldcast.hpp"
#include "tools/foldcast/commands.h"

namespace foldcast::tools {
namespace {

/// Measures, and prints on rank 0 what was found. Throws api::Error.
void calibrate() {
  const api::Communicator comm;
  api::check(foldcast_comm_calibrate(comm.get()));
  if (comm.rank() != 0) return;
  const std::string text = comm.explain({FOLDCAST_ALL_REDUCE, 1u << 20, FOLDCAST_FLOAT32, FOLDCAST_SUM, 0});
  // The lines of the explanation that say what was measured.
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("nodes:") || line.starts_with("links:") || line.starts_with("tree:")) {
      fmt::print("{}\n", line);
    }
    if (end == std::string::npos) break;
    at = end + 1;
  }
  std::fflush(stdout);
}

}  // namespace

void add_calibrate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Measure the links between and inside the nodes anew, print the numbers and keep them for later jobs of this "
      "shape (FOLDCAST_CALIBRATION); run it as every rank: foldcast run -n 4 -- foldcast calibrate");
  command->callback([] {
    int code = 0;
    try {
      calibrate();
    } catch (const std::exception& error) {
      fmt::print(stderr, "foldcast calibrate: {}\n", error.what());
      code = kExitFailure;
    }
    finish(code);
  });
}

}  // namespace foldcast::tools
