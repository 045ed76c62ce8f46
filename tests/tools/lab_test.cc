#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "tests/tools/command.h"

namespace foldcast::tools::testing {
namespace {

constexpr const char* kNamespaces = "unshare -n true 2>/dev/null || unshare -U -r -n true 2>/dev/null";

/// Brings labs up under names of its own and takes them down whatever happens.
class Lab : public ::testing::Test {
 protected:
  void SetUp() override {
    if (shell("command -v ip && command -v tc && command -v bridge").code != 0)
      GTEST_SKIP() << "iproute2 is not installed";
    if (shell(kNamespaces).code != 0) GTEST_SKIP() << "neither root nor user namespaces are to be had";
    if (shell("unshare -r -n ip link add v0 type veth peer name v1").code != 0)
      GTEST_SKIP() << "the kernel has no veth";
  }
  void TearDown() override { shell("$FOLDCAST lab down --name " + name_ + "; $FOLDCAST lab down --name " + second_); }

  CommandResult up(const std::string& options = "--nodes 4 --racks 2", const std::string& name = "") {
    return shell("$FOLDCAST lab up --name " + (name.empty() ? name_ : name) + " --aggregators none " + options, 60);
  }
  CommandResult lab(const std::string& verb, const std::string& rest = "") {
    return shell("$FOLDCAST lab " + verb + " --name " + name_ + " " + rest, 30);
  }
  std::string state_directory() {
    std::string text = lab("status").out;
    auto start = text.find("state and logs: ");
    return start == std::string::npos ? "" : text.substr(start + 16, text.find('\n', start) - start - 16);
  }
  /// The pids of the supervisor and of what it holds, while it is up.
  std::string family() {
    return shell("s=$($FOLDCAST lab status --name " + name_ +
                 " | sed -n 's/.*supervisor pid \\([0-9]*\\).*/\\1/p'); echo $s $(pgrep -P $s)")
        .out;
  }
  static int alive(const std::string& pids) {
    return std::atoi(shell("n=0; for p in " + pids.substr(0, pids.find('\n')) +
                           "; do grep -qs '^State:.[^ZX]' /proc/$p/status && n=$((n+1)); done; echo $n")
                         .out.c_str());
  }

  std::string name_ = "test-" + std::to_string(::getpid()) + "-a";
  std::string second_ = "test-" + std::to_string(::getpid()) + "-b";
};

TEST_F(Lab, RanksRunOnTheirNodes) {
  ASSERT_EQ(up("--nodes 5 --racks 2 --ranks-per-node 2 --rate 500mbit").code, 0);
  auto result =
      lab("run",
          "-- sh -c 'echo $FOLDCAST_RANK/$FOLDCAST_SIZE $FOLDCAST_LOCAL_RANK $(uname -n) $(cat $FOLDCAST_TOPOLOGY "
          "| wc -l) $FOLDCAST_STORE $(pwd)'");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("0/10 0 node0 4 10.77.0.1:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(std::filesystem::current_path().string() + "\n"), std::string::npos) << result.out;
  std::string logs = state_directory() + "/jobs/1";
  for (int rank = 0; rank < 10; ++rank) {
    std::string text = contents(logs + "/rank" + std::to_string(rank) + ".out");
    std::string expected =
        std::to_string(rank) + "/10 " + std::to_string(rank % 2) + " node" + std::to_string(rank / 2) + " ";
    EXPECT_EQ(text.substr(0, expected.size()), expected);
  }
  EXPECT_EQ(lab("run", "-n 3 -- sh -c 'echo $FOLDCAST_SIZE'").out, "3\n");
}

TEST_F(Lab, NodesMayHaveDifferentNumbersOfRanks) {
  ASSERT_EQ(up("--nodes 3 --racks 1 --ranks-per-node 3,2,1").code, 0);
  auto result = lab("run", "-- sh -c 'echo $FOLDCAST_RANK/$FOLDCAST_SIZE $FOLDCAST_LOCAL_RANK $(uname -n)'");
  ASSERT_EQ(result.code, 0) << result.err;
  std::string logs = state_directory() + "/jobs/1";
  const char* expected[] = {"0/6 0 node0\n", "1/6 1 node0\n", "2/6 2 node0\n",
                            "3/6 0 node1\n", "4/6 1 node1\n", "5/6 0 node2\n"};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(contents(logs + "/rank" + std::to_string(rank) + ".out"), expected[rank]);
  }
  EXPECT_NE(lab("status").out.find("3,2,1 ranks per node"), std::string::npos);
  auto refused = shell("$FOLDCAST lab up --name " + second_ + " --nodes 2 --ranks-per-node 3,2,1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("3 numbers for 2 nodes"), std::string::npos) << refused.err;
}

TEST_F(Lab, RailsAreNetworksOfTheirOwn) {
  if (shell("command -v python3").code != 0) GTEST_SKIP() << "python3 is not installed";
  auto brought = up("--nodes 3 --racks 2 --rails 2 --rail-rates 200mbit,100mbit");
  ASSERT_EQ(brought.code, 0) << brought.err;
  EXPECT_NE(brought.out.find("200mbit + 100mbit a node"), std::string::npos) << brought.out;
  std::string status = lab("status").out;
  EXPECT_NE(status.find("2 rails"), std::string::npos) << status;
  EXPECT_NE(status.find("  rail1   10.78.0.3      rack1 at 100mbit"), std::string::npos) << status;
  // Node 0 sends a full frame to each of the last node's addresses, through both racks and the spine; that answers with
  // where it heard it.
  const char* script = R"(
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(10)
if sys.argv[1] == "answer":
    sock.bind(("", 4000))
    open("ready", "w").close()
    for _ in range(2):
        text, peer = sock.recvfrom(65536)
        sock.sendto(peer[0].encode(), peer)
else:
    sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: never fragment
    for rail in ("10.77.0.3", "10.78.0.3"):
        sock.sendto(b"x" * 8972, (rail, 4000))
        print(sock.recvfrom(100)[0].decode(), flush=True)
)";
  TemporaryDirectory directory;
  std::string in = "$FOLDCAST lab exec --name " + name_;
  auto result =
      shell("cat > " + directory.path() + "/talk.py <<'END'" + script + "END\ncd " + directory.path() + "\n" + in +
                " node2 -- timeout 20 python3 talk.py answer &\nwhile [ ! -e ready ]; do sleep 0.05; done\n" + in +
                " node0 -- timeout 20 python3 talk.py ask; wait",
            40);
  EXPECT_EQ(result.out, "10.77.0.1\n10.78.0.1\n") << result.err;
  auto sent = shell("for d in rail0 rail1; do " + in + " node0 -- cat /sys/class/net/$d/statistics/tx_packets; done");
  EXPECT_EQ(sent.out, "1\n1\n") << "each went by its own rail";
}

TEST_F(Lab, RanksAreBoundToCores) {
  ASSERT_EQ(up("--nodes 2 --racks 1 --rate unshaped").code, 0);
  auto result = lab("run", "--bind-to core -- sh -c 'grep Cpus_allowed_list /proc/self/status | cut -f 2'");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find_first_not_of("0123456789\n"), std::string::npos) << result.out;
  EXPECT_EQ(lines_in(result.out), 1);
  EXPECT_NE(lab("status").out.find("rack0 at unshaped"), std::string::npos);
}

TEST_F(Lab, EveryoneReachesEveryoneInFullFrames) {
  if (shell("command -v python3").code != 0) GTEST_SKIP() << "python3 is not installed";
  ASSERT_EQ(up("--nodes 3 --racks 2 --mtu 9000").code, 0);
  // One datagram of a full frame, unfragmented, from each host to each other.
  const char* script = R"(
import os, socket, sys, time
hosts = ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.255.1", "10.77.255.2", "10.77.255.254"]
me = sys.argv[1]
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((me, 4000))
server.settimeout(15)
open("ready-" + me, "w").close()
while sum(name.startswith("ready-") for name in os.listdir(".")) < len(hosts): time.sleep(0.05)
server.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: never fragment
for host in hosts:
    if host != me: server.sendto(b"x" * 8972, (host, 4000))
heard = {server.recvfrom(65536)[1][0] for _ in range(len(hosts) - 1)}
os.write(1, b"heard %d\n" % len(heard))  # at once: six write into one pipe
)";
  TemporaryDirectory directory;
  std::string line = "cat > " + directory.path() + "/talk.py <<'END'" + script + "END\ncd " + directory.path() + "\n";
  line +=
      "set -- node0 10.77.0.1 node1 10.77.0.2 node2 10.77.0.3 rack0 10.77.255.1 rack1 10.77.255.2 spine 10.77.255.254\n"
      "while [ $# -gt 0 ]; do $FOLDCAST lab exec --name " +
      name_ + " $1 -- timeout 20 python3 talk.py $2 & shift 2; done; wait";
  auto result = shell(line, 40);
  EXPECT_EQ(result.out, "heard 5\nheard 5\nheard 5\nheard 5\nheard 5\nheard 5\n") << result.err;
}

TEST_F(Lab, IdleLinksCarryNothing) {
  ASSERT_EQ(up().code, 0);
  auto counters =
      shell("sleep 1.5; for n in 0 1 2 3; do $FOLDCAST lab exec --name " + name_ +
            " node$n -- cat /sys/class/net/eth0/statistics/tx_bytes /sys/class/net/eth0/statistics/rx_bytes; done");
  ASSERT_EQ(counters.code, 0) << counters.err;
  EXPECT_EQ(counters.out, "0\n0\n0\n0\n0\n0\n0\n0\n");
}

TEST_F(Lab, AFailureEndsTheJobAndShowsWhy) {
  ASSERT_EQ(up().code, 0);
  auto result = lab("run", "-- sh -c '[ $FOLDCAST_RANK = 2 ] && { echo no luck today >&2; exit 41; }; exec sleep 60'");
  EXPECT_EQ(result.code, 41);
  EXPECT_NE(result.err.find("rank 2 on node2 exited with code 41"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("no luck today"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(state_directory() + "/jobs/1"), std::string::npos) << result.err;
  auto limited = lab("run", "-t 0.5 -- sleep 60");
  EXPECT_EQ(limited.code, 124);
}

TEST_F(Lab, JobsSideBySideHaveTheirOwnStores) {
  ASSERT_EQ(up().code, 0);
  auto result = shell("for i in 1 2 3; do $FOLDCAST lab run --name " + name_ +
                      " -- sh -c 'sleep 0.5; echo $FOLDCAST_STORE' & "
                      "done; sleep 0.4; $FOLDCAST lab status --name " +
                      name_ + " | grep -c '^job .*4 ranks' >&2; wait");
  EXPECT_EQ(result.err, "3\n");
  EXPECT_EQ(shell("printf '" + result.out + "' | sort -u | wc -l").out, "3\n") << result.out;
  EXPECT_NE(lab("status").out.find("no jobs"), std::string::npos);
}

TEST_F(Lab, LinksKeepTheirRate) {
  if (shell("command -v python3").code != 0) GTEST_SKIP() << "python3 is not installed";
  ASSERT_EQ(up("--nodes 2 --racks 2 --rate 50mbit").code, 0);
  // Not a speed test: 4 MB cannot pass 50 Mbit/s in under 0.6 s, however fast or slow the machine is.
  auto result = lab("run", R"(-- python3 -c '
import os, socket, time
if os.environ["FOLDCAST_RANK"] == "1":
    server = socket.create_server(("10.77.0.2", 4000)); peer = server.accept()[0]
    while peer.recv(1 << 20): pass
    peer.send(b"x")
else:
    for attempt in range(200):
        try: peer = socket.create_connection(("10.77.0.2", 4000)); break
        except OSError: time.sleep(0.05)
    start = time.monotonic(); peer.sendall(bytes(4000000)); peer.shutdown(socket.SHUT_WR); peer.recv(1)
    print(time.monotonic() - start)
')");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GT(std::atof(result.out.c_str()), 0.6);
  EXPECT_EQ(shell("$FOLDCAST lab exec --name " + name_ + " spine -- tc qdisc show dev rack1").out.find("rate 50Mbit") !=
                std::string::npos,
            true);
  auto sent = shell("$FOLDCAST lab status --name " + name_ + " | awk '$1 == \"node0\" {print $6}'").out;
  EXPECT_GT(std::atoll(sent.c_str()), 4'000'000) << "the counters miss what was sent";
  EXPECT_LT(std::atoll(sent.c_str()), 4'400'000);
}

TEST_F(Lab, DownTakesEverythingAlong) {
  ASSERT_EQ(up().code, 0);
  std::string directory = state_directory();
  std::string pids = family();
  EXPECT_EQ(alive(pids), 1 + 4 + 3);
  auto result =
      shell("$FOLDCAST lab run --name " + name_ + " -- sleep 77 & job=$!; $FOLDCAST lab exec --name " + name_ +
            " node1 -- sh -c 'setsid sleep 77 & echo $!' > " + directory + "/stray; sleep 0.7; stray=$(cat " +
            directory + "/stray); $FOLDCAST lab down --name " + name_ +
            "; wait $job; echo job $?; echo stray ${stray:?}; grep -s '^State:.[^ZX]' /proc/$stray/status; echo end");
  EXPECT_NE(result.out.find("is down\njob 143\nstray "), std::string::npos) << result.out << result.err;
  EXPECT_EQ(result.out.find("State:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nend\n"), std::string::npos) << result.out << result.err;
  EXPECT_EQ(alive(pids), 0);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(Lab, ACrashLeavesNothingButItsState) {
  ASSERT_EQ(up().code, 0);
  std::string directory = state_directory();
  std::string pids = family();
  shell("kill -9 " + pids.substr(0, pids.find(' ')) + "; sleep 0.5");
  EXPECT_EQ(alive(pids), 0);
  auto status = lab("status");
  EXPECT_NE(status.code, 0);
  EXPECT_NE(status.err.find("has crashed"), std::string::npos) << status.err;
  EXPECT_NE(lab("run", "-- true").code, 0);
  ASSERT_EQ(up("--nodes 2 --racks 1").code, 0) << "a stale state must not be in the way";
  shell("kill -9 $($FOLDCAST lab status --name " + name_ +
        " | sed -n 's/.*supervisor pid \\([0-9]*\\).*/\\1/p'); sleep 0.3");
  EXPECT_EQ(lab("down").code, 0);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(Lab, TwoLabsKeepApart) {
  ASSERT_EQ(up("--nodes 2 --racks 1").code, 0);
  ASSERT_EQ(up("--nodes 3 --racks 3", second_).code, 0);
  auto again = up("--nodes 2 --racks 1");
  EXPECT_NE(again.code, 0);
  EXPECT_NE(again.err.find("already up"), std::string::npos) << again.err;
  EXPECT_EQ(lab("run", "-- sh -c 'echo $FOLDCAST_SIZE'").out, "2\n");
  EXPECT_EQ(lab("down").code, 0);
  EXPECT_EQ(shell("$FOLDCAST lab run --name " + second_ + " -- sh -c 'echo $FOLDCAST_SIZE'").out, "3\n");
}

TEST_F(Lab, AggregatorsAreStartedAndWatched) {
  std::string beside = std::filesystem::path(FOLDCAST_PROGRAM).parent_path() / "foldcastd";
  if (::access(beside.c_str(), X_OK) != 0) GTEST_SKIP() << "foldcastd is not built";
  ASSERT_EQ(shell("$FOLDCAST lab up --nodes 4 --racks 2 --aggregators rack+spine --name " + name_, 60).code, 0);
  EXPECT_EQ(lab("run", "-- sh -c 'echo $FOLDCAST_AGGREGATORS'").out,
            "rack0=10.77.255.1:7000,rack1=10.77.255.2:7000,spine=10.77.255.254:7000\n");
  auto status = lab("status");
  EXPECT_EQ(shell("printf '" + status.out + "' | grep -c ' listening'").out, "3\n") << status.out;
  shell("kill -9 $($FOLDCAST lab status --name " + name_ +
        " | sed -n 's/^rack1 .*pid \\([0-9]*\\)$/\\1/p'); sleep 0.3");
  EXPECT_NE(lab("status").out.find("aggregator was killed by signal 9"), std::string::npos) << lab("status").out;
  EXPECT_EQ(lab("down").code, 0);
  ASSERT_EQ(shell("$FOLDCAST lab up --nodes 4 --racks 2 --aggregators rack --name " + name_, 60).code, 0);
  EXPECT_EQ(lab("run", "-- sh -c 'echo $FOLDCAST_AGGREGATORS'").out, "rack0=10.77.255.1:7000,rack1=10.77.255.2:7000\n");
}

TEST_F(Lab, BadInputIsOneClearLine) {
  struct Case {
    const char* arguments;
    const char* expected;
  };
  for (const Case& bad :
       {Case{"up --nodes 0", "--nodes is 0"}, Case{"up --nodes -2", "--nodes is -2"}, Case{"up --nodes x", "x"},
        Case{"up --nodes 2 --racks 3", "--racks is 3"}, Case{"up --rate fast", "'fast' is not a rate"},
        Case{"up --rate -5mbit", "'-5mbit'"}, Case{"up --uplink 1", "'1' is not a rate"},
        Case{"up --mtu 1", "--mtu is 1"}, Case{"up --aggregators all", "'all' is unknown"},
        Case{"up --name ../x", "'../x' cannot name"}, Case{"up stray", "stray"},
        Case{"run --name absent -- true", "there is no lab 'absent'"},
        Case{"exec --name absent node0 -- true", "there is no lab 'absent'"},
        Case{"status --name absent", "there is no lab 'absent'"},
        Case{"down --name absent", "there is no lab 'absent'"}, Case{"run", "command is missing"},
        Case{"frobnicate", "frobnicate"}}) {
    auto result = shell(std::string("$FOLDCAST lab ") + bad.arguments);
    EXPECT_NE(result.code, 0) << bad.arguments;
    EXPECT_EQ(lines_in(result.err), 1) << bad.arguments << ": " << result.err;
    EXPECT_NE(result.err.find(bad.expected), std::string::npos) << bad.arguments << ": " << result.err;
  }
  ASSERT_EQ(up("--nodes 1 --racks 1").code, 0);
  EXPECT_NE(lab("exec", "node9 -- true").err.find("has no 'node9'"), std::string::npos);
  EXPECT_NE(lab("exec", "node0 -- /no/such").err.find("/no/such"), std::string::npos);
  EXPECT_NE(lab("run", "-- /no/such").err.find("/no/such"), std::string::npos);
  EXPECT_NE(lab("run", "-n 2 -- true").err.find("1 to 1 ranks"), std::string::npos);
  EXPECT_EQ(lab("exec", "node0 -- sh -c 'exit 7'").code, 7);
}

TEST_F(Lab, WorksWithoutRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "the other cases show it: this is not root";
  if (shell("command -v setpriv").code != 0) GTEST_SKIP() << "setpriv is not installed";
  TemporaryDirectory directory;
  std::string as_nobody =
      "setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR=" + directory.path() + " ";
  shell("chown 65534:65534 " + directory.path());
  if (shell(as_nobody + "$FOLDCAST --help").code != 0) GTEST_SKIP() << "the program lies where only root may read it";
  if (shell(as_nobody + "unshare -U -r -n true").code != 0) GTEST_SKIP() << "the kernel allows no user namespaces";
  auto result =
      shell("cd /; " + as_nobody + "$FOLDCAST lab up --nodes 3 --racks 2 --aggregators none && " + as_nobody +
                "$FOLDCAST lab run -- sh -c 'echo $(uname -n) $(ls /sys/class/net) $FOLDCAST_SIZE' && " + as_nobody +
                "$FOLDCAST lab status; " + as_nobody + "$FOLDCAST lab down; ls " + directory.path() + "/foldcast-lab",
            60);
  EXPECT_NE(result.out.find("node0 eth0 lo 3\n"), std::string::npos) << result.out << result.err;
  EXPECT_NE(result.out.find("in a user namespace"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.substr(result.out.find("lab lab is down")), "lab lab is down\n") << result.err;
}

}  // namespace
}  // namespace foldcast::tools::testing
