// foldcastd as a process, with members on UCX over loopback.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/base/unique_fd.h"
#include "fixture.h"
#include "offload/protocol/control.h"
#include "transports/ucx/ucx.h"

namespace foldcast::offload {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd reader(ends[0]), writer(ends[1]);
    arguments.insert(arguments.begin(), FOLDCASTD);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(writer.get(), STDOUT_FILENO);
      ::dup2(writer.get(), STDERR_FILENO);
      std::vector<char*> argv;
      for (auto& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    output_ = std::move(reader);
  }
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  std::string line() {
    std::string text;
    for (char c = 0; ::read(output_.get(), &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  void signal(int number) { ::kill(pid_, number); }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
};

/// The address after "foldcastd: listening on ".
std::string address_of(Process& process) {
  const std::string line = process.line();
  EXPECT_THAT(line, HasSubstr("foldcastd: listening on 127.0.0.1:"));
  return line.substr(line.rfind(' ') + 1);
}

TransportFactory ucx() {
  return [](std::uint64_t token) {
    transports::UcxOptions options;
    options.token = token;
    options.devices = "lo";
    return transports::make_ucx(options);
  };
}

void run(const Tree& tree, const std::function<void(std::int32_t, OffloadGroup&)>& body) {
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < tree.parent_of_member.size(); ++m) {
    threads.emplace_back([&, m] {
      const auto member = static_cast<std::int32_t>(m);
      const auto provider = make_aggregator_provider(ucx());
      JoinRequest request;
      request.tree = &tree;
      request.group = kGroupBit | 1;
      request.job_token = 77;
      request.member = member;
      request.timeout = 20s;
      request.fragment_timeout = 20s;
      auto group = provider->join(request);
      ASSERT_TRUE(group.ok()) << group.status().to_string();
      body(member, **group);
    });
  }
  for (auto& thread : threads) thread.join();
}

Tree two_level_tree(const std::string& root, const std::string& leaf) {
  Tree tree;
  tree.vertices = {{"spine", root, -1, {1}, {0}}, {"rack", leaf, 0, {}, {1, 2}}};
  tree.parent_of_member = {0, 1, 1};
  tree.hosts = {"a", "b", "c"};
  return tree;
}

TEST(DaemonProcess, ReducesAndEndsCleanOnSigterm) {
  const std::string stats_file = ::testing::TempDir() + "foldcastd-stats-" + std::to_string(::getpid()) + ".json";
  Process root({"--listen", "127.0.0.1:0", "--name", "spine", "--devices", "lo", "--stats-file", stats_file});
  Process leaf({"--listen", "127.0.0.1:0", "--name", "rack", "--devices", "lo", "--window", "4"});
  const auto tree = two_level_tree(address_of(root), address_of(leaf));
  run(tree, [](std::int32_t member, OffloadGroup& group) {
    EXPECT_EQ(group.caps().slots, 4u);
    for (const std::size_t count : {0, 1, 1021, 300'000}) {
      std::vector<std::int32_t> values(count, member + 1);
      group.post(all_reduce(Datatype::kInt32, ReduceOp::kSum, count, values.data(), values.data()), 1);
      const auto completion = await(group);
      ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
      EXPECT_EQ(values, std::vector<std::int32_t>(count, 6));
    }
  });
  for (Process* process : {&leaf, &root}) {
    process->signal(SIGTERM);
    const int status = process->wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  std::ifstream file(stats_file);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"groups_granted\": 1"));
  EXPECT_THAT(text.str(), HasSubstr("\"groups_failed\": 0"));
  std::remove(stats_file.c_str());
}

TEST(DaemonProcess, KilledMidCallEndsItForAll) {
  Process root({"--listen", "127.0.0.1:0", "--name", "spine", "--devices", "lo"});
  Process leaf({"--listen", "127.0.0.1:0", "--name", "rack", "--devices", "lo"});
  const auto tree = two_level_tree(address_of(root), address_of(leaf));
  std::atomic<int> waiting{0};
  std::thread killer([&] {
    const Deadline deadline = Deadline::after(20s);
    while (waiting.load() < 2 && !deadline.passed()) std::this_thread::sleep_for(1ms);
    root.signal(SIGKILL);
  });
  run(tree, [&](std::int32_t member, OffloadGroup& group) {
    std::vector<float> values(100'000, 1);
    if (member != 0) {
      group.post(all_reduce(Datatype::kFloat32, ReduceOp::kSum, values.size(), values.data(), values.data()), 1);
      ++waiting;
      const auto start = std::chrono::steady_clock::now();
      const auto completion = await(group);
      EXPECT_FALSE(completion.status.ok());
      EXPECT_THAT(completion.status.message(), HasSubstr("spine"));
      EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
      return;
    }
    const Deadline deadline = Deadline::after(20s);
    while (waiting.load() < 2 && !deadline.passed()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(300ms);
    group.post(barrier(), 1);
    EXPECT_FALSE(await(group).status.ok());
  });
  killer.join();
}

TEST(DaemonProcess, BadArgumentsAreOneLineAndAnError) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--listen", "nonsense"}, "expected host:port"},
      {{"--listen", "127.0.0.1:0", "--key-file", "/nonexistent/key"}, "cannot read the key file /nonexistent/key"},
      {{"--listen", "127.0.0.1:0", "--fragment", "65"}, "multiple of 8"},
      {{"--listen", "127.0.0.1:0", "--devices", "nosuchdevice0"}, "nosuchdevice0"},
  };
  for (const auto& [arguments, expected] : cases) {
    Process process(arguments);
    std::string last, text;
    while (!(last = process.line()).empty()) text += last + "\n";
    EXPECT_THAT(text, HasSubstr(expected));
    const int status = process.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << status;
  }
}

}  // namespace
}  // namespace foldcast::offload
