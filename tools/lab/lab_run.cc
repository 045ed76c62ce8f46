#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "fmt/format.h"
#include "tools/lab/job.h"
#include "tools/lab/lab.h"
#include "tools/system/file.h"
#include "tools/system/program.h"

namespace foldcast::tools {
namespace {

/// Below the range the kernel takes ephemeral ports from; one per job number, so that jobs side by side never share
/// one.
constexpr int kFirstStorePort = 20000;
constexpr int kStorePorts = 10000;
constexpr std::size_t kShownLines = 10;

class JobPlan {
 public:
  JobPlan(const LoadedLab& lab, const LabRun& run, const LabJob& job) : lab_(lab), run_(run), job_(job) {}

  Status prepare() {
    auto layout = lab_.state.layout();
    spaces_.reserve(layout.nodes.size());  // ranks borrow them
    int rank = 0;
    for (int node = 0; rank < job_.ranks; ++node) {
      const std::string& name = layout.nodes[static_cast<std::size_t>(node)].name;
      FOLDCAST_ASSIGN(Namespaces spaces, lab_.state.enter(name));
      spaces_.push_back(std::move(spaces));
      for (int local = 0; local < lab_.state.spec.ranks_on(node) && rank < job_.ranks; ++local) {
        add_rank(rank++, local, name, spaces_.back());
      }
    }
    return ok_status();
  }

  const std::vector<JobProcess>& processes() const { return processes_; }

 private:
  void add_rank(int rank, int local_rank, const std::string& node, const Namespaces& spaces) {
    JobProcess process;
    process.name = fmt::format("rank {} on {}", rank, node);
    process.command = run_.command;
    process.namespaces = &spaces;
    process.output = rank == 0 ? JobProcess::Output::kForward : JobProcess::Output::kFile;
    process.log_out = fmt::format("{}/rank{}.out", job_.directory, rank);
    process.log_err = fmt::format("{}/rank{}.err", job_.directory, rank);
    process.keeps_input = rank == 0;
    process.cpu = processor_of(run_.binding, rank);
    std::string store = fmt::format("FOLDCAST_STORE={}:{}", lab_.state.layout().nodes.front().address,
                                    kFirstStorePort + job_.number % kStorePorts);
    std::vector<std::string> changes = {fmt::format("FOLDCAST_RANK={}", rank),
                                        fmt::format("FOLDCAST_SIZE={}", job_.ranks),
                                        fmt::format("FOLDCAST_LOCAL_RANK={}", local_rank),
                                        std::move(store),
                                        "FOLDCAST_TOPOLOGY=" + lab_.directory.file("topology.conf"),
                                        "FOLDCAST_AGGREGATORS=" + lab_.state.aggregator_list(),
                                        path_with_program_directory(),
                                        terminal_variable(process.output == JobProcess::Output::kForward)};
    const LabSpec& spec = lab_.state.spec;
    if (spec.rails > 1 && std::getenv("FOLDCAST_RAILS") == nullptr) {
      std::vector<std::string> devices;
      for (int rail = 0; rail < spec.rails; ++rail) devices.push_back(spec.node_device(rail));
      changes.push_back(fmt::format("FOLDCAST_RAILS={}", fmt::join(devices, ",")));
    }
    process.environment = environment_with(changes);
    processes_.push_back(std::move(process));
  }

  const LoadedLab& lab_;
  const LabRun& run_;
  const LabJob& job_;
  std::vector<Namespaces> spaces_;
  std::vector<JobProcess> processes_;
};

std::string last_lines(const std::string& text, std::size_t count) {
  std::size_t start = text.size();
  if (start > 0 && text.back() == '\n') --start;
  while (start > 0 && count > 0) {
    start = text.rfind('\n', start - 1);
    if (start == std::string::npos) return text;
    if (--count == 0) return text.substr(start + 1);
  }
  return text;
}

/// What a rank whose output is not shown had to say when it failed, and where the rest is.
void report_failure(const LabJob& job, const JobOutcome& outcome) {
  std::string text;
  if (outcome.failed.value_or(0) != 0) {
    std::string said = read_file(fmt::format("{}/rank{}.err", job.directory, *outcome.failed)).value_or("");
    text = last_lines(said, kShownLines);
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  text += fmt::format("foldcast lab run: the output of all ranks is in {}\n", job.directory);
  write_all(STDERR_FILENO, text);
}

}  // namespace

Result<int> run_in_lab(const LabRun& run) {
  FOLDCAST_ASSIGN(LoadedLab lab, load_running_lab(run.lab));
  int all = lab.state.spec.ranks();
  if (run.ranks < 0 || run.ranks > all) {
    return invalid_argument(fmt::format("-n is {}; lab '{}' has 1 to {} ranks", run.ranks, run.lab, all));
  }
  FOLDCAST_ASSIGN(LabJob job, register_job(lab.directory, shell_quoted(run.command), run.ranks ? run.ranks : all));
  JobPlan plan(lab, run, job);
  Status prepared = plan.prepare();
  if (!prepared.ok()) {
    end_job(job);
    return prepared;
  }
  JobOptions options;
  options.program = "foldcast lab run";
  options.time_limit = run.time_limit;
  auto outcome = run_job(plan.processes(), options);
  end_job(job);
  if (!outcome.ok()) return outcome.status();
  if (outcome->exit_code != 0) report_failure(job, *outcome);
  return outcome->exit_code;
}

Status execute_in_lab(const std::string& lab_name, const std::string& host, const std::vector<std::string>& command) {
  FOLDCAST_ASSIGN(LoadedLab lab, load_running_lab(lab_name));
  FOLDCAST_ASSIGN(Namespaces spaces, lab.state.enter(host));
  FOLDCAST_ASSIGN(LabJob job, register_job(lab.directory, host + ": " + shell_quoted(command), 0));
  char directory[PATH_MAX];
  bool have_directory = ::getcwd(directory, sizeof directory) != nullptr;
  if (!spaces.enter()) {
    Status status = system_error("cannot enter " + host, errno);
    end_job(job);
    return status;
  }
  if (have_directory && ::chdir(directory) != 0) {
    Status status = system_error(fmt::format("cannot enter {} on {}", directory, host), errno);
    end_job(job);
    return status;
  }
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::setenv("PATH", path_with_program_directory().c_str() + 5, 1);
  ::execvp(arguments[0], arguments.data());
  Status status = system_error("cannot start '" + command[0] + "'", errno);
  end_job(job);
  return status;
}

}  // namespace foldcast::tools
