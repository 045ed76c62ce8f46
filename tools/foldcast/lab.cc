#include "tools/lab/lab.h"

#include <cstdio>
#include <memory>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/foldcast/commands.h"

namespace foldcast::tools {
namespace {

struct LabOptions {
  LabSpec spec;
  std::string rate = "200mbit";
  std::string uplink;
  std::string rail_rates;
  std::string ranks_per_node = "1";
  std::string aggregators = "rack+spine";
  std::string name = LabSpec().name;
  std::string host;
  bool all = false;
  int ranks = 0;
  std::string bind_to = "none";
  double seconds = 0;
};

using Options = std::shared_ptr<LabOptions>;

void add_name(CLI::App* command, const Options& options) {
  command->add_option("--name", options->name, "Which lab, if there is more than one")->capture_default_str();
}

Result<LabSpec> spec_from(const LabOptions& options) {
  LabSpec spec = options.spec;
  spec.name = options.name;
  FOLDCAST_ASSIGN(spec.rate, parse_rate(options.rate));
  if (!options.uplink.empty()) {
    FOLDCAST_ASSIGN(std::uint64_t uplink, parse_rate(options.uplink));
    spec.uplink = uplink;
  }
  if (!options.rail_rates.empty()) {
    FOLDCAST_ASSIGN(spec.rail_rates, parse_rail_rates(options.rail_rates));
  }
  FOLDCAST_ASSIGN(spec.ranks_per_node, parse_ranks_per_node(options.ranks_per_node));
  FOLDCAST_ASSIGN(spec.aggregators, parse_placement(options.aggregators));
  return spec;
}

void up(const LabOptions& options) {
  auto spec = spec_from(options);
  if (!spec.ok()) fail("foldcast lab up", spec.status());
  if (Status status = bring_lab_up(*spec); !status.ok()) fail("foldcast lab up", status);
  std::vector<std::string> rates;
  std::vector<std::string> uplinks;
  for (int rail = 0; rail < spec->rails; ++rail) {
    rates.push_back(rate_text(spec->rate_on(rail)));
    uplinks.push_back(rate_text(spec->uplink_rate(rail)));
  }
  fmt::print("lab {} is up: {} nodes in {} rack{}, {} a node, {} an uplink\n", spec->name, spec->nodes, spec->racks,
             spec->racks == 1 ? "" : "s", fmt::join(rates, " + "), fmt::join(uplinks, " + "));
}

void add_up(CLI::App& lab, const Options& options) {
  CLI::App* command = lab.add_subcommand("up", "Bring up a cluster of network namespaces with shaped links");
  LabSpec& spec = options->spec;
  command->add_option("--nodes", spec.nodes, "Nodes")->capture_default_str();
  command->add_option("--racks", spec.racks, "Racks; the nodes are spread evenly in blocks")->capture_default_str();
  command->add_option("--rate", options->rate, "Of a node's link, each way, or unshaped")->capture_default_str();
  command->add_option("--rails", spec.rails, "Links of every node, each into a network of its own")
      ->capture_default_str();
  command->add_option("--rail-rates", options->rail_rates, "Of each rail, separated by commas, in place of --rate");
  command->add_option("--uplink", options->uplink, "Of a rack's link to the spine; as --rate if not given");
  command->add_option("--mtu", spec.mtu, "Of every link, in bytes")->capture_default_str();
  command
      ->add_option("--ranks-per-node", options->ranks_per_node, "For 'lab run': of all nodes, or of each, as in 3,2,1")
      ->capture_default_str();
  command->add_option("--aggregators", options->aggregators, "Switches that run foldcastd: rack+spine, rack or none")
      ->capture_default_str();
  add_name(command, options);
  command->callback([options] { up(*options); });
}

void add_lab_run(CLI::App& lab, const Options& options) {
  CLI::App* command = lab.add_subcommand("run",
                                         "Run a command as every rank, each on its node: foldcast lab run -- CMD ...\n"
                                         "Rank 0's output is shown, all is kept; one rank's failure ends all.");
  command->add_option("-t", options->seconds, "End all after so many seconds, with exit code 124")
      ->check(positive_seconds());
  command->add_option("-n", options->ranks, "Only the first so many ranks")->check(CLI::PositiveNumber);
  command->add_option("--bind-to", options->bind_to, "core: each rank to a core of its own; none")
      ->capture_default_str();
  add_name(command, options);
  command->prefix_command();
  command->callback([command, options] {
    LabRun run;
    auto binding = parse_binding(options->bind_to);
    if (!binding.ok()) fail("foldcast lab run", binding.status());
    run.binding = *binding;
    run.lab = options->name;
    run.command = trailing_command(*command, "foldcast lab run");
    run.ranks = options->ranks;
    if (options->seconds > 0) {
      run.time_limit =
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options->seconds));
    }
    auto code = run_in_lab(run);
    if (!code.ok()) fail("foldcast lab run", code.status());
    finish(*code);
  });
}

void add_exec(CLI::App& lab, const Options& options) {
  CLI::App* command =
      lab.add_subcommand("exec", "Run a command on one node or switch: foldcast lab exec node3 -- CMD ...");
  add_name(command, options);
  command->prefix_command();
  command->callback([command, options] {
    auto words = trailing_command(*command, "foldcast lab exec");
    std::string host = words.front();
    words.erase(words.begin());
    if (words.empty()) fail("foldcast lab exec", invalid_argument("a command is missing after '" + host + " --'"));
    fail("foldcast lab exec", execute_in_lab(options->name, host, words));
  });
}

void add_deed(CLI::App& lab, const Options& options, const char* name, const char* help, AggregatorDeed deed) {
  CLI::App* command = lab.add_subcommand(name, help);
  add_name(command, options);
  command->add_option("switch", options->host, "Where it runs, as in rack0 or spine")->required();
  command->callback([name, deed, options] {
    const std::string label = std::string("foldcast lab ") + name;
    if (Status status = do_to_aggregator(options->name, options->host, deed); !status.ok()) {
      fail(label.c_str(), status);
    }
  });
}

void add_deeds(CLI::App& lab, const Options& options) {
  add_deed(lab, options, "kill-aggregator", "Kill a switch's aggregator (SIGKILL)", AggregatorDeed::kKill);
  add_deed(lab, options, "stop-aggregator", "Make it silent (SIGSTOP)", AggregatorDeed::kStop);
  add_deed(lab, options, "continue-aggregator", "Let it go on (SIGCONT)", AggregatorDeed::kContinue);
  add_deed(lab, options, "start-aggregator", "Start one that has ended again, at its address", AggregatorDeed::kStart);
}

void add_status(CLI::App& lab, const Options& options) {
  CLI::App* command = lab.add_subcommand("status", "Show nodes, links, aggregators, jobs and byte counters");
  add_name(command, options);
  command->callback([options] {
    auto text = describe_lab(options->name);
    if (!text.ok()) fail("foldcast lab status", text.status());
    fmt::print("{}", *text);
  });
}

void add_down(CLI::App& lab, const Options& options) {
  CLI::App* command = lab.add_subcommand("down", "Take a lab down with everything in it, also after a crash");
  add_name(command, options);
  command->add_flag("--all", options->all, "All labs of this user");
  command->callback([options] {
    if (options->all) {
      auto names = take_all_labs_down();
      if (!names.ok()) fail("foldcast lab down", names.status());
      fmt::print("{}\n", names->empty() ? "no labs" : fmt::format("down: {}", fmt::join(*names, ", ")));
      return;
    }
    if (Status status = take_lab_down(options->name); !status.ok()) fail("foldcast lab down", status);
    fmt::print("lab {} is down\n", options->name);
  });
}

}  // namespace

void add_lab(CLI::App& app) {
  CLI::App* lab =
      app.add_subcommand("lab", "Emulated clusters on this machine: nodes, racks, shaped links, aggregators");
  lab->require_subcommand(1);
  auto options = std::make_shared<LabOptions>();
  add_up(*lab, options);
  add_lab_run(*lab, options);
  add_exec(*lab, options);
  add_deeds(*lab, options);
  add_status(*lab, options);
  add_down(*lab, options);
}

}  // namespace foldcast::tools
