#include "tools/foldcast/perf_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <random>
#include <string_view>
#include <vector>

#include "tools/foldcast/perf_job.h"
#include "tools/foldcast/perf_json.h"
#include "tools/foldcast/perf_measure.h"
#include "tools/foldcast/perf_plot.h"
#include "tools/foldcast/perf_record.h"
#include "tools/foldcast/perf_report.h"
#include "tools/foldcast/perf_rows.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

/// Whether what goes to stderr ends on a terminal: ours, or that of the launcher which forwards it.
bool is_on_terminal() {
  const char* of_launcher = std::getenv("FOLDCAST_TERMINAL");
  return ::isatty(STDERR_FILENO) == 1 || (of_launcher != nullptr && std::string_view(of_launcher) == "1");
}

/// What is being done, on one line of rank 0's terminal that is erased again. Silent where there is no terminal.
class ProgressLine {
 public:
  ProgressLine(bool on, std::size_t steps) : on_(on && is_on_terminal()), steps_(steps) {}
  ~ProgressLine() { erase(); }

  void start_step() { ++step_; }
  void show(const PerfCase& one, std::string_view doing) {
    if (!on_) return;
    fmt::print(stderr, "\r\033[K{}/{}: {}: {} ...", step_, steps_, to_string(one), doing);
    std::fflush(stderr);
  }
  void erase() {
    if (!on_) return;
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

 private:
  bool on_;
  std::size_t step_ = 0;
  std::size_t steps_;
};

/// Finds out before the work whether its outcome can be written.
Status check_outputs(const PerfOptions& options) {
  if (!options.json.empty()) {
    if (Status status = check_writable(options.json); !status.ok()) return status.with_context("-J");
  }
  if (options.plot.empty()) return ok_status();
  FOLDCAST_RETURN_IF_ERROR(check_gnuplot());
  Status status = check_writable(options.plot);
  return status.ok() ? status : status.with_context("--plot");
}

Status write_outputs(const PerfOptions& options, const std::vector<PerfRecord>& records) {
  if (!options.json.empty()) {
    FOLDCAST_ASSIGN(AtomicFile file, AtomicFile::create(options.json));
    FOLDCAST_RETURN_IF_ERROR(file.write(perf_json(records)));
    FOLDCAST_RETURN_IF_ERROR(file.commit());
  }
  if (options.plot.empty()) return ok_status();
  return write_plot(options.plot, records);
}

/// One rank's part in a whole comparison.
class PerfRun {
 public:
  PerfRun(const PerfOptions& options, std::FILE* out) : options_(options), out_(out) {}

  int run() {
    if (!outputs_are_good()) return 1;
    std::uint64_t seed = job_.share(std::random_device{}());
    std::vector<std::vector<PerfCase>> rows = rows_of(options_, job_.size());
    PerfMeasurement measurement(job_, options_, {seed, room_for(rows)});
    std::vector<RankPlace> places = job_.places();
    PerfTable table(options_, {plan_width(measurement, rows), largest_size(rows)});
    print(perf_header(options_, places, seed) + table.headings());
    measure(measurement, rows, table);
    print(perf_footer(options_, records_));
    return finish();
  }

 private:
  void print(const std::string& text) {
    if (job_.rank() != 0) return;
    fmt::print(out_, "{}", text);
    std::fflush(out_);
  }

  /// Rank 0 looks, all ranks end alike: nobody is left to report a lost rank 0.
  bool outputs_are_good() {
    Status status = job_.rank() == 0 ? check_outputs(options_) : ok_status();
    if (!status.ok()) fmt::print(stderr, "foldcast perf: {}\n", status.message());
    return job_.agree_sum(status.ok() ? 0 : 1) == 0;
  }

  /// Asks for every plan before the first measurement: a combination that cannot run ends the run here.
  std::size_t plan_width(PerfMeasurement& measurement, const std::vector<std::vector<PerfCase>>& rows) {
    std::size_t width = 0;
    for (const std::vector<PerfCase>& row : rows) {
      for (const PerfCase& one : row) {
        PerfRecord record;
        foldcast_plan_info_t plan = measurement.plan_of(one);
        record.plan = plan.name;
        record.asked = one.path;
        record.ran = plan.path == FOLDCAST_PATH_OFFLOAD ? PerfPath::kOffload : PerfPath::kHost;
        width = std::max(width, plan_cell(record).size());
      }
    }
    return width;
  }

  std::uint64_t room_for(const std::vector<std::vector<PerfCase>>& rows) const {
    std::uint64_t room = 0;
    for (const std::vector<PerfCase>& row : rows) {
      room = std::max(room, PerfMeasurement::room_for(row.front(), job_.size()));
    }
    return room;
  }

  static std::uint64_t largest_size(const std::vector<std::vector<PerfCase>>& rows) {
    std::uint64_t largest = 0;
    for (const std::vector<PerfCase>& row : rows) largest = std::max(largest, row.front().size.bytes);
    return largest;
  }

  void measure(PerfMeasurement& measurement, const std::vector<std::vector<PerfCase>>& rows, const PerfTable& table) {
    ProgressLine progress(job_.rank() == 0, rows.size() * options_.paths.size());
    for (const std::vector<PerfCase>& row : rows) {
      for (const PerfCase& one : row) {
        progress.start_step();
        records_.push_back(measurement.measure(one, [&](std::string_view doing) { progress.show(one, doing); }));
      }
      progress.erase();
      print(table.row(std::span(records_).last(row.size())));
    }
  }

  int finish() {
    int code = 0;
    if (job_.rank() == 0) {
      if (Status status = write_outputs(options_, records_); !status.ok()) {
        fmt::print(stderr, "foldcast perf: {}\n", status.message());
        code = 1;
      }
    }
    auto is_bad = [](const PerfRecord& record) { return record.wrong.value_or(0) > 0; };
    auto bad = std::count_if(records_.begin(), records_.end(), is_bad);
    if (bad == 0) return code;
    if (job_.rank() == 0) {
      fmt::print(stderr, "foldcast perf: {} of {} measurements gave wrong results, see #wrong\n", bad, records_.size());
    }
    return 1;
  }

  const PerfOptions& options_;
  std::FILE* out_;
  PerfJob job_;
  std::vector<PerfRecord> records_;
};

}  // namespace

int run_perf(const PerfOptions& options, std::FILE* out) {
  try {
    return PerfRun(options, out).run();
  } catch (const UsageError& error) {
    fmt::print(stderr, "foldcast perf: {}\n", error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "foldcast perf: not enough memory for two buffers of the largest size; lower -e\n");
  } catch (const std::exception& error) {  // api::Error and what libraries throw
    fmt::print(stderr, "foldcast perf: {}\n", error.what());
    return exit_code_of(error);
  }
  return 1;
}

}  // namespace foldcast::tools
