#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/tools/command.h"

namespace foldcast::tools::testing {
namespace {

/// An argument no other process has, to look for what was left behind.
std::string fresh_marker() { return "86" + std::to_string(100000 + std::random_device{}() % 900000); }

/// How many processes have the marker as an argument; the shell that looks has it only inside a longer word.
std::string count_of(const std::string& marker) { return "ps -eo args= | grep -c '^sleep " + marker + "$'"; }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Run, EveryRankGetsItsPlaceInTheJob) {
  for (int size : {1, 2, 3, 5}) {
    auto result = shell("$FOLDCAST run -n " + std::to_string(size) +
                        " -- sh -c 'echo $FOLDCAST_RANK/$FOLDCAST_SIZE local $FOLDCAST_LOCAL_RANK $FOLDCAST_STORE'");
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(lines_in(result.out), size);
    auto store = result.out.find("127.0.0.1:");
    ASSERT_NE(store, std::string::npos);
    std::string address = result.out.substr(store, result.out.find('\n', store) - store);
    for (int rank = 0; rank < size; ++rank) {
      std::string number = std::to_string(rank);
      std::string prefix = size == 1 ? "" : "[" + number + "] ";
      std::string line = prefix + number + "/" + std::to_string(size) + " local " + number + " " + address + "\n";
      EXPECT_NE(result.out.find(line), std::string::npos) << line << "not in\n" << result.out;
    }
  }
}

TEST(Run, BindsRanksToCoresInTurns) {
  auto result =
      shell("$FOLDCAST run -n 3 --bind-to core -- sh -c 'grep Cpus_allowed_list /proc/self/status | cut -f 2'");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_in(result.out), 3);
  EXPECT_EQ(result.out.find_first_not_of("[]0123456789 \n"), std::string::npos)
      << "one processor a rank: " << result.out;
  if (std::thread::hardware_concurrency() > 1) {
    auto first = result.out.find("[0] ");
    auto second = result.out.find("[1] ");
    EXPECT_NE(result.out.substr(first + 4, result.out.find('\n', first) - first - 4),
              result.out.substr(second + 4, result.out.find('\n', second) - second - 4));
  }
  auto refused = shell("$FOLDCAST run --bind-to socket -- true");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--bind-to 'socket' is unknown; it is core or none"), std::string::npos) << refused.err;
}

TEST(Run, StreamsStayApartAndLinesWhole) {
  auto result = shell(
      "$FOLDCAST run -n 3 -- sh -c 'printf half; sleep 0.1; printf \" line\\n\"; echo complaint >&2; printf "
      "unfinished'");
  ASSERT_EQ(result.code, 0);
  for (const char* rank : {"[0] ", "[1] ", "[2] "}) {
    EXPECT_NE(result.out.find(std::string(rank) + "half line\n"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find(std::string(rank) + "unfinished\n"), std::string::npos) << result.out;
    EXPECT_NE(result.err.find(std::string(rank) + "complaint\n"), std::string::npos) << result.err;
  }
  EXPECT_EQ(result.out.find("complaint"), std::string::npos);
}

TEST(Run, ArgumentsArriveVerbatim) {
  auto result = shell("$FOLDCAST run -- printf '<%s>' '' '[a,b]' '--' '-n' 'two words' 'run'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "<><[a,b]><--><-n><two words><run>");
}

TEST(Run, MuchOutputArrivesWhole) {
  auto result = shell("$FOLDCAST run -n 2 -- seq 1 60000 | sort | uniq -c | awk '{n[$1]++} END {print n[1]}'");
  EXPECT_EQ(result.out, "120000\n") << result.err;
}

TEST(Run, AFailureEndsAllAndIsNamed) {
  std::string marker = fresh_marker();
  auto start = std::chrono::steady_clock::now();
  auto result = shell("$FOLDCAST run -n 4 -- sh -c '[ $FOLDCAST_RANK = 2 ] && exit 37; sleep " + marker +
                      "'; code=$?; " + count_of(marker) + "; exit $code");
  EXPECT_EQ(result.code, 37);
  EXPECT_NE(result.err.find("rank 2 exited with code 37"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "0\n") << "processes are left";
  EXPECT_LT(seconds_since(start), 10);
}

TEST(Run, TheOthersMayReportByThemselvesFirst) {
  auto result = shell(
      "$FOLDCAST run -n 2 -- sh -c '[ $FOLDCAST_RANK = 1 ] && exit 3; sleep 0.5; echo rank 1 is gone >&2; exit 9'");
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("[0] rank 1 is gone"), std::string::npos) << result.err;
}

TEST(Run, ASignalIsNamedAndGives128More) {
  auto result = shell("$FOLDCAST run -n 3 -- sh -c '[ $FOLDCAST_RANK = 1 ] && kill -9 $$; exec sleep 0.2'");
  EXPECT_EQ(result.code, 137);
  EXPECT_NE(result.err.find("rank 1 was killed by signal 9"), std::string::npos) << result.err;
}

TEST(Run, WhoIgnoresSigtermIsKilled) {
  std::string marker = fresh_marker();
  auto result = shell("$FOLDCAST run -n 2 -t 0.3 -- sh -c 'trap \"\" TERM; sleep " + marker + "; sleep " + marker +
                      "'; code=$?; " + count_of(marker) + "; exit $code");
  EXPECT_EQ(result.code, 124);
  EXPECT_NE(result.err.find("time limit of 0.3 s"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "0\n");
}

TEST(Run, DaemonsOfARankAreEndedToo) {
  std::string marker = fresh_marker();
  auto result = shell("$FOLDCAST run -n 2 -- sh -c 'setsid sleep " + marker + " >/dev/null 2>&1 & exit 0'; code=$?; " +
                      count_of(marker) + "; exit $code");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "0\n");
}

TEST(Run, AnInterruptionEndsAll) {
  for (auto [name, number] : {std::pair{"INT", 2}, std::pair{"TERM", 15}}) {
    std::string marker = fresh_marker();
    // A background job of a shell without job control ignores SIGINT, so python3's or env's default is needed.
    auto result =
        shell("env --default-signal=INT $FOLDCAST run -n 3 -- sleep " + marker + " & pid=$!; sleep 0.7; kill -" + name +
              " $pid; wait $pid; code=$?; " + count_of(marker) + "; exit $code");
    EXPECT_EQ(result.code, 128 + number) << result.err;
    EXPECT_EQ(result.out, "0\n");
  }
}

TEST(Run, EvenKilledItLeavesNothing) {
  std::string marker = fresh_marker();
  // The rank is a shell with a child: the kernel's parent-death signal alone would spare the child.
  auto result = shell("$FOLDCAST run -n 2 -- sh -c 'sleep " + marker + "; true' & pid=$!; sleep 0.7; " +
                      count_of(marker) + "; kill -9 $pid; sleep 0.7; " + count_of(marker));
  EXPECT_EQ(result.out, "2\n0\n") << result.err;
}

TEST(Run, AReaderThatLeavesEndsTheJob) {
  auto result = shell("$FOLDCAST run -n 2 -- yes | head -n 1; true");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_in(result.out), 1);
}

TEST(Run, AListRunsOneSizeAfterAnother) {
  auto result = shell("$FOLDCAST run -n 2,3,1 -- sh -c 'echo of $FOLDCAST_SIZE'");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_in(result.out), 6);
  EXPECT_LT(result.out.find("of 2"), result.out.find("of 3"));
  EXPECT_LT(result.out.find("of 3"), result.out.find("of 1"));
  auto failing = shell("$FOLDCAST run -n 1,2 -- sh -c 'echo of $FOLDCAST_SIZE; exit 5'");
  EXPECT_EQ(failing.code, 5);
  EXPECT_EQ(failing.out, "of 1\n");
}

TEST(Run, BadInputIsOneClearLine) {
  struct Case {
    const char* arguments;
    const char* expected;
  };
  for (const Case& bad :
       {Case{"-n 0 -- true", "-n '0'"}, Case{"-n -3 -- true", "-n '-3'"}, Case{"-n two -- true", "-n 'two'"},
        Case{"-n 2, -- true", "-n '2,'"}, Case{"-n 99999999999 -- true", "99999999999"},
        Case{"-n 2", "command is missing"}, Case{"-t -1 -- true", "-1"}, Case{"-t x -- true", "'x'"},
        Case{"--bogus -- true", "--bogus"}, Case{"-- /no/such/program", "/no/such/program"}}) {
    auto result = shell(std::string("$FOLDCAST run ") + bad.arguments);
    EXPECT_NE(result.code, 0) << bad.arguments;
    EXPECT_EQ(lines_in(result.err), 1) << bad.arguments << ": " << result.err;
    EXPECT_NE(result.err.find(bad.expected), std::string::npos) << bad.arguments << ": " << result.err;
    EXPECT_EQ(result.out, "");
  }
  auto unknown = shell("$FOLDCAST rnu");
  EXPECT_NE(unknown.code, 0);
  EXPECT_EQ(lines_in(unknown.err), 1) << unknown.err;
}

TEST(Run, HelpIsHelp) {
  for (const char* arguments : {"--help", "run --help", "lab --help", "lab up --help"}) {
    auto result = shell(std::string("$FOLDCAST ") + arguments);
    EXPECT_EQ(result.code, 0) << arguments << result.err;
    EXPECT_NE(result.out.find("Usage"), std::string::npos) << arguments;
  }
}

}  // namespace
}  // namespace foldcast::tools::testing
