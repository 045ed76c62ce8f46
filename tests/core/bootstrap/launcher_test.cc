#include "core/bootstrap/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "core/base/deadline.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/resolve.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

Result<LaunchInfo> resolve_env(const Map& environment, std::chrono::milliseconds setup_timeout = 10s) {
  auto env = [&](const std::string& name) -> std::optional<std::string> {
    auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
  return resolve_launch(env, setup_timeout);
}

struct Good {
  std::string title;
  Map environment;
  std::string launcher;
  int rank, size, local_rank;
  std::string host;
  int port;  ///< -1: derived, in 20000-29999
};

class Resolves : public testing::TestWithParam<Good> {};

TEST_P(Resolves, AsDocumented) {
  const Good& wanted = GetParam();
  auto info = resolve_env(wanted.environment);
  ASSERT_TRUE(info.ok()) << info.status().to_string();
  EXPECT_EQ(info->launcher, wanted.launcher);
  EXPECT_EQ(info->rank, wanted.rank);
  EXPECT_EQ(info->size, wanted.size);
  EXPECT_EQ(info->local_rank, wanted.local_rank);
  EXPECT_EQ(info->store_host, wanted.host);
  if (wanted.port >= 0) {
    EXPECT_EQ(info->store_port, wanted.port);
  } else {
    EXPECT_GE(info->store_port, 20000);
    EXPECT_LE(info->store_port, 29999);
  }
}

const Map kTorchrun = {
    {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}};
const Map kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"PMIX_NAMESPACE", "prterun-host-123@1"}};
const Map kSlurm = {{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "6"},
                    {"SLURM_LOCALID", "2"}, {"SLURM_JOB_ID", "77"},
                    {"SLURM_STEP_ID", "1"}, {"SLURM_STEP_NODELIST", "rack[03-05,9]-n[1-4],other"}};
const Map kOwn = {{"FOLDCAST_RANK", "1"}, {"FOLDCAST_SIZE", "2"}, {"FOLDCAST_STORE", "10.0.0.1:7000"}};

Map with(Map base, const Map& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

INSTANTIATE_TEST_SUITE_P(
    Environments, Resolves,
    testing::Values(
        Good{"nothing", {}, "single process", 0, 1, 0, "", 0},
        Good{"empty_is_unset", {{"FOLDCAST_RANK", ""}, {"RANK", ""}}, "single process", 0, 1, 0, "", 0},
        Good{"own", kOwn, "foldcast", 1, 2, 0, "10.0.0.1", 7000},
        Good{"own_ipv6", with(kOwn, {{"FOLDCAST_STORE", "[fe80::1]:7000"}}), "foldcast", 1, 2, 0, "fe80::1", 7000},
        Good{"own_local", with(kOwn, {{"FOLDCAST_LOCAL_RANK", "1"}}), "foldcast", 1, 2, 1, "10.0.0.1", 7000},
        Good{"own_single", {{"FOLDCAST_RANK", "0"}, {"FOLDCAST_SIZE", "1"}}, "foldcast", 0, 1, 0, "", 0},
        Good{"own_before_torchrun", with(kTorchrun, kOwn), "foldcast", 1, 2, 0, "10.0.0.1", 7000},
        Good{"torchrun", kTorchrun, "torchrun", 3, 8, 1, "head", 29501},
        Good{"torchrun_port", with(kTorchrun, {{"FOLDCAST_STORE_PORT", "99"}}), "torchrun", 3, 8, 1, "head", 99},
        Good{"torchrun_store", with(kTorchrun, {{"FOLDCAST_STORE", "a:1"}}), "torchrun", 3, 8, 1, "a", 1},
        Good{"torchrun_before_mpi", with(kOpenMpi, kTorchrun), "torchrun", 3, 8, 1, "head", 29501},
        Good{"open_mpi", kOpenMpi, "Open MPI", 1, 4, 1, "127.0.0.1", -1},
        Good{"open_mpi_store", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"FOLDCAST_STORE", "h:5"}}),
             "Open MPI", 1, 4, 1, "h", 5},
        Good{"open_mpi_slurm", with(kSlurm, with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})), "Open MPI", 1, 4, 1,
             "rack03-n1", -1},
        Good{"open_mpi_list_not_needed", with(kOpenMpi, {{"SLURM_STEP_NODELIST", "n["}}), "Open MPI", 1, 4, 1,
             "127.0.0.1", -1},
        Good{"pmi_store",
             {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"FOLDCAST_STORE", "h:5"}},
             "PMI",
             1,
             2,
             1,
             "h",
             5},
        Good{"pmi_single", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "PMI", 0, 1, 0, "", 0},
        Good{"slurm", kSlurm, "Slurm", 5, 6, 2, "rack03-n1", -1},
        Good{"slurm_step_size", with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "12"}}), "Slurm", 5, 12, 2, "rack03-n1", -1},
        Good{"slurm_plain_list", with(kSlurm, {{"SLURM_STEP_NODELIST", "a1,b2"}}), "Slurm", 5, 6, 2, "a1", -1},
        Good{"slurm_one_in_brackets", with(kSlurm, {{"SLURM_STEP_NODELIST", "n[007]"}}), "Slurm", 5, 6, 2, "n007", -1}),
    [](const auto& test) { return test.param.title; });

struct Bad {
  std::string title;
  Map environment;
  std::string message;
};

class Refuses : public testing::TestWithParam<Bad> {};

TEST_P(Refuses, NamingTheVariable) {
  auto info = resolve_env(GetParam().environment);
  ASSERT_FALSE(info.ok());
  EXPECT_EQ(info.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(info.status().message(), HasSubstr(GetParam().message));
  EXPECT_EQ(info.status().message().find('\n'), std::string::npos);
}

Map without(Map base, const std::string& name) {
  base.erase(name);
  return base;
}

INSTANTIATE_TEST_SUITE_P(
    Environments, Refuses,
    testing::Values(
        Bad{"own_no_size", without(kOwn, "FOLDCAST_SIZE"), "FOLDCAST_SIZE is not set"},
        Bad{"own_no_rank", without(kOwn, "FOLDCAST_RANK"), "FOLDCAST_RANK is not set"},
        Bad{"own_no_store", without(kOwn, "FOLDCAST_STORE"), "FOLDCAST_STORE is not set"},
        Bad{"own_rank_too_high", with(kOwn, {{"FOLDCAST_RANK", "2"}}), "FOLDCAST_RANK=2 contradicts FOLDCAST_SIZE=2"},
        Bad{"own_rank_text", with(kOwn, {{"FOLDCAST_RANK", "one"}}), "FOLDCAST_RANK=\"one\""},
        Bad{"own_rank_trailing", with(kOwn, {{"FOLDCAST_RANK", "1x"}}), "FOLDCAST_RANK=\"1x\""},
        Bad{"own_rank_negative", with(kOwn, {{"FOLDCAST_RANK", "-1"}}), "FOLDCAST_RANK=\"-1\""},
        Bad{"own_size_zero", with(kOwn, {{"FOLDCAST_SIZE", "0"}}), "FOLDCAST_SIZE=\"0\""},
        Bad{"store_no_port", with(kOwn, {{"FOLDCAST_STORE", "host"}}), "FOLDCAST_STORE: \"host\": expected host:port"},
        Bad{"store_port_zero", with(kOwn, {{"FOLDCAST_STORE", "h:0"}}), "expected host:port"},
        Bad{"store_port_high", with(kOwn, {{"FOLDCAST_STORE", "h:65536"}}), "expected host:port"},
        Bad{"store_no_host", with(kOwn, {{"FOLDCAST_STORE", ":80"}}), "expected host:port"},
        Bad{"store_bare_ipv6", with(kOwn, {{"FOLDCAST_STORE", "fe80::1:80"}}), "brackets"},
        Bad{"store_port_variable", with(kTorchrun, {{"FOLDCAST_STORE_PORT", "x"}}), "FOLDCAST_STORE_PORT=\"x\""},
        Bad{"torchrun_no_size", without(kTorchrun, "WORLD_SIZE"), "WORLD_SIZE is not set"},
        Bad{"torchrun_no_address", without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR is not set"},
        Bad{"torchrun_no_port", without(kTorchrun, "MASTER_PORT"), "MASTER_PORT is not set"},
        Bad{"torchrun_last_port", with(kTorchrun, {{"MASTER_PORT", "65535"}}), "MASTER_PORT=\"65535\""},
        Bad{"open_mpi_two_nodes", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), "FOLDCAST_STORE"},
        Bad{"open_mpi_no_identity", without(kOpenMpi, "PMIX_NAMESPACE"), "FOLDCAST_STORE"},
        Bad{"pmi_no_fd", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "PMI_FD is not set"},
        Bad{"pmi_closed_fd", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "987"}}, "PMI_FD=987 is not open"},
        Bad{"slurm_no_tasks", without(kSlurm, "SLURM_NTASKS"), "SLURM_NTASKS is not set"},
        Bad{"slurm_no_list", without(kSlurm, "SLURM_STEP_NODELIST"), "SLURM_STEP_NODELIST"},
        Bad{"slurm_no_job", without(kSlurm, "SLURM_JOB_ID"), "SLURM_JOB_ID is not set"},
        Bad{"slurm_open_bracket", with(kSlurm, {{"SLURM_STEP_NODELIST", "n[1-"}}), "SLURM_STEP_NODELIST: "},
        Bad{"slurm_empty_bracket", with(kSlurm, {{"SLURM_STEP_NODELIST", "n[]"}}), "SLURM_STEP_NODELIST: "},
        Bad{"slurm_comma", with(kSlurm, {{"SLURM_STEP_NODELIST", ",a"}}), "an empty name"}),
    [](const auto& test) { return test.param.title; });

TEST(HostPort, IsReadOrRefusedByName) {
  EXPECT_EQ(parse_host_port("[::1]:70")->host, "::1");
  EXPECT_EQ(parse_host_port("node3:65535")->port, 65535);
  EXPECT_EQ(parse_host_port("node3:0", 0)->port, 0);
  for (const char* text : {"", ":", "a", "a:", ":1", "[]:1", "a:0", "a:65536", "a:-1", "a:+1", "a:1 ", "::1:70"}) {
    auto parsed = parse_host_port(text);
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr("\"" + std::string(text) + "\": expected host:port"));
  }
}

TEST(Launcher, DerivedPortsAreEqualOnAllRanksAndDifferBetweenSteps) {
  auto port_of = [](const Map& more) { return resolve_env(with(kSlurm, more))->store_port; };
  EXPECT_EQ(port_of({{"SLURM_PROCID", "0"}}), port_of({{"SLURM_PROCID", "5"}, {"SLURM_LOCALID", "0"}}));
  EXPECT_NE(port_of({}), port_of({{"SLURM_STEP_ID", "2"}}));
  EXPECT_NE(port_of({}), port_of({{"SLURM_JOB_ID", "78"}}));
}

// --- A process manager that speaks PMI version 1 ---

/// Answers `size` ranks, each over its own socketpair and thread, as Hydra's proxy would.
class FakeProcessManager {
 public:
  explicit FakeProcessManager(int size) : size_(size) {
    for (int rank = 0; rank < size; ++rank) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      ranks_.emplace_back(ends[0]);
      threads_.emplace_back([this, fd = ends[1]] { serve(UniqueFd(fd)); });
    }
  }
  ~FakeProcessManager() {
    ranks_.clear();
    for (auto& thread : threads_) thread.join();
  }
  std::string fd_of(int rank) { return std::to_string(ranks_[static_cast<std::size_t>(rank)].get()); }

 private:
  void serve(UniqueFd fd) {
    std::string line;
    for (char byte; ::read(fd.get(), &byte, 1) == 1;) {
      if (byte != '\n') {
        line += byte;
        continue;
      }
      std::string reply = answer(line) + "\n";
      ASSERT_EQ(::send(fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL), static_cast<ssize_t>(reply.size()));
      line.clear();
    }
  }
  static std::string word(const std::string& line, const std::string& name) {
    auto at = line.find(" " + name + "=");
    if (at == line.npos) return {};
    at += name.size() + 2;
    return line.substr(at, line.find(' ', at) - at);
  }
  std::string answer(const std::string& line) {
    std::unique_lock lock(mutex_);
    if (line == "cmd=init pmi_version=1 pmi_subversion=1") {
      return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    }
    if (line == "cmd=get_maxes") return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024";
    if (line == "cmd=get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_7_0";
    if (line.starts_with("cmd=put ") && word(line, "kvsname") == "kvs_7_0") {
      bool is_new = values_.emplace(word(line, "key"), word(line, "value")).second;
      return is_new ? "cmd=put_result rc=0 msg=success" : "cmd=put_result rc=-1 msg=duplicate_key";
    }
    if (line == "cmd=barrier_in") {
      int round = arrived_++ / size_;
      all_here_.notify_all();
      all_here_.wait_for(lock, 10s, [&] { return arrived_ >= (round + 1) * size_; });
      return "cmd=barrier_out";
    }
    if (line.starts_with("cmd=get ")) {
      auto found = values_.find(word(line, "key"));
      if (found == values_.end()) return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
      return "cmd=get_result rc=0 msg=success value=" + found->second;
    }
    return "cmd=what rc=-1";
  }

  int size_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int arrived_ = 0;
  Map values_;
  std::vector<UniqueFd> ranks_;
  std::vector<std::thread> threads_;
};

class OverPmi : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, OverPmi, testing::Values(2, 3, 5));

TEST_P(OverPmi, AllRanksLearnRankZerosAddressEveryTime) {
  int size = GetParam();
  FakeProcessManager manager(size);
  for (int context = 0; context < 2; ++context) {
    std::vector<std::optional<Result<LaunchInfo>>> infos(static_cast<std::size_t>(size));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        infos[static_cast<std::size_t>(rank)] = resolve_env({{"PMI_RANK", std::to_string(rank)},
                                                             {"PMI_SIZE", std::to_string(size)},
                                                             {"PMI_FD", manager.fd_of(rank)},
                                                             {"MPI_LOCALNRANKS", std::to_string(size)}});
      });
    }
    for (auto& rank : ranks) rank.join();
    for (const auto& info : infos) {
      ASSERT_TRUE(info->ok()) << info->status().to_string();
      EXPECT_EQ((*info)->store_host, "127.0.0.1");
      EXPECT_EQ((*info)->store_port, (*infos[0])->store_port);
      EXPECT_GT((*info)->store_port, 0);
    }
  }
}

/// A process manager that says `reply` to everything, then closes.
Result<LaunchInfo> resolve_against(const std::string& reply) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd ours(ends[0]);
  std::thread manager([&] {
    UniqueFd fd(ends[1]);
    char buffer[256];
    (void)!::read(fd.get(), buffer, sizeof buffer);
    (void)!::send(fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    if (reply.empty()) (void)!::read(fd.get(), buffer, sizeof buffer);  // silent, but there
  });
  auto info = resolve_env({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", std::to_string(ends[0])}}, 200ms);
  ours.reset();
  manager.join();
  return info;
}

TEST(Pmi, OddProcessManagersEndInAnErrorNotAHang) {
  EXPECT_THAT(resolve_against("").status().message(), HasSubstr("waiting for the process manager to answer"));
  EXPECT_THAT(resolve_against("cmd=response_to_init rc=-1\n").status().message(), HasSubstr("PMI version 1"));
  EXPECT_THAT(resolve_against("HTTP/1.0 400 Bad\n").status().message(), HasSubstr("answered \"HTTP/1.0 400 Bad\""));
  EXPECT_THAT(resolve_against("cmd=response").status().message(), HasSubstr("closed PMI_FD"));
  EXPECT_THAT(resolve_against(std::string(20000, 'x')).status().message(), HasSubstr("has no end"));
}

}  // namespace
}  // namespace foldcast::bootstrap
