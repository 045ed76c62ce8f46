#include "tools/foldcast/perf_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace foldcast::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PerfRecord record(std::uint64_t bytes, PerfPath asked, PerfPath ran, double median) {
  PerfRecord one;
  one.bytes = bytes;
  one.count = bytes / 4;
  one.nranks = one.nnodes = 8;
  one.asked = asked;
  one.ran = ran;
  one.plan = ran == PerfPath::kOffload ? "node+tree" : "node+ring";
  one.time_us = {median / 2, median, median * 2, median * 2};
  one.wire_tx_bytes = static_cast<std::int64_t>(bytes);
  one.wire_rx_bytes = static_cast<std::int64_t>(bytes);
  one.wrong = 0;
  return one;
}

PerfOptions both_paths() {
  PerfFlags flags;
  flags.paths = "offload,host";
  return validate(flags).value();
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Table, FitsAScreenAndLinesUpForTwoPaths) {
  PerfOptions options = both_paths();
  PerfTable table(options, {9, 67108864});
  std::vector<PerfRecord> large = {record(67108864, PerfPath::kOffload, PerfPath::kOffload, 2700000),
                                   record(67108864, PerfPath::kHost, PerfPath::kHost, 4800000)};
  std::vector<PerfRecord> small = {record(8, PerfPath::kOffload, PerfPath::kOffload, 301.5),
                                   record(8, PerfPath::kHost, PerfPath::kHost, 12.25)};
  std::string rows = table.headings() + table.row(large) + table.row(small);
  EXPECT_LE(longest_line(rows), 184u);
  EXPECT_EQ(table.row(large).size(), table.row(small).size());
  EXPECT_THAT(table.row(large), HasSubstr("67.11M"));
  EXPECT_THAT(table.row(large), HasSubstr("   1.78\n"));
  EXPECT_THAT(table.headings(), HasSubstr(" offload "));
}

TEST(Table, MarksAnOffloadRequestThatRanOnTheHosts) {
  PerfOptions options = both_paths();
  PerfTable table(options, {9, 67108864});
  std::vector<PerfRecord> row = {record(8, PerfPath::kOffload, PerfPath::kHost, 10),
                                 record(8, PerfPath::kHost, PerfPath::kHost, 10)};
  EXPECT_THAT(table.row(row), HasSubstr("node+ring(HOST)"));
  EXPECT_THAT(table.row(row), HasSubstr("      -\n"));
  std::string footer = perf_footer(both_paths(), row);
  EXPECT_THAT(footer, HasSubstr("1 of the offload requests ran on the hosts"));
  EXPECT_THAT(footer, HasSubstr("Crossover (float32 sum): none"));
}

TEST(Table, HasAColumnForTheRootAndForTheOverlapWhereTheyMeanSomething) {
  PerfOptions options = both_paths();
  options.collective = Collective::kReduce;
  options.paths = {PerfPath::kHost};
  options.datatypes = {Datatype::kFloat8E4m3};
  options.overlap = true;
  PerfTable table(options, {4, 2147483653});
  PerfRecord one = record(2147483653, PerfPath::kHost, PerfPath::kHost, 10);
  one.collective = Collective::kReduce;
  one.root = 5;
  one.dtype = Datatype::kFloat8E4m3;
  one.overlap = Overlap{12, 15.5, 65};
  one.plan = "tree";
  std::string row = table.row(std::span(&one, 1));
  EXPECT_THAT(row, HasSubstr("float8_e4m3   sum    5  tree"));
  EXPECT_THAT(row, HasSubstr(" 12.00   15.50    65.0 "));
  std::stringstream lines(table.headings() + row);
  std::size_t width = row.size() - 1;
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(line.size(), width) << line;
  options.collective = Collective::kAllGather;
  options.overlap = false;
  EXPECT_THAT(PerfTable(options, {4, 8}).headings(), Not(HasSubstr("redop")));
  EXPECT_THAT(PerfTable(options, {4, 8}).headings(), Not(HasSubstr("root")));
}

TEST(Table, SaysWhatWasNotChecked) {
  PerfOptions options = both_paths();
  options.paths = {PerfPath::kHost};
  PerfTable table(options, {4, 8});
  PerfRecord one = record(8, PerfPath::kHost, PerfPath::kHost, 10);
  one.wrong.reset();
  EXPECT_THAT(table.row(std::span(&one, 1)), HasSubstr("N/A"));
  EXPECT_THAT(perf_footer(both_paths(), std::span(&one, 1)), HasSubstr("not checked"));
}

TEST(Footer, NamesTheCrossoverForEachShape) {
  std::vector<PerfRecord> records = {
      record(8, PerfPath::kOffload, PerfPath::kOffload, 30), record(8, PerfPath::kHost, PerfPath::kHost, 20),
      record(1024, PerfPath::kOffload, PerfPath::kOffload, 30), record(1024, PerfPath::kHost, PerfPath::kHost, 50)};
  std::string footer = perf_footer(both_paths(), records);
  EXPECT_THAT(footer, HasSubstr("Crossover (float32 sum): 1024 bytes"));
  EXPECT_THAT(footer, HasSubstr("Avg bus bandwidth (offload)"));
  EXPECT_THAT(footer, HasSubstr("0 OK"));
  records[2].wrong = 3;
  EXPECT_THAT(perf_footer(both_paths(), records), HasSubstr("3 FAILED, in 1 of 4"));
}

TEST(Footer, AddsUpTheStepOfAWorkload) {
  PerfOptions options = both_paths();
  options.sizes_from = "model.sizes";
  std::vector<PerfRecord> records = {
      record(100, PerfPath::kOffload, PerfPath::kOffload, 10), record(100, PerfPath::kHost, PerfPath::kHost, 20),
      record(200, PerfPath::kOffload, PerfPath::kOffload, 100), record(200, PerfPath::kHost, PerfPath::kHost, 200)};
  records[2].occurrences = records[3].occurrences = 3;
  EXPECT_THAT(
      perf_footer(options, records),
      HasSubstr("One step of model.sizes (float32 sum, 4 calls, 700 bytes), sum of medians x occurrences: offload "
                "310 us, host 620 us"));
}

TEST(Header, NamesRanksHostsNodesAndType) {
  std::vector<RankPlace> places = {{0, 11, "node0"}, {1, 12, "node1"}};
  std::string header = perf_header(both_paths(), places, 7);
  EXPECT_THAT(header, HasSubstr("nranks 2 nnodes 2"));
  EXPECT_THAT(header, HasSubstr("Rank   1 node   1 pid      12 on node1"));
  EXPECT_THAT(header, HasSubstr("type: float32 redop: sum"));
  EXPECT_THAT(header, HasSubstr("seed: 7"));
  std::stringstream lines(header);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(line.front(), '#') << line;
}

TEST(Header, StaysShortForManyRanks) {
  std::vector<RankPlace> places(1000, RankPlace{0, 1, "host"});
  std::string header = perf_header(both_paths(), places, 7);
  EXPECT_LT(std::count(header.begin(), header.end(), '\n'), 80);
  EXPECT_THAT(header, HasSubstr("and 936 more ranks"));
}

}  // namespace
}  // namespace foldcast::tools
