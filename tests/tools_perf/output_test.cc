#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tools/foldcast/perf_gnuplot.h"
#include "tools/foldcast/perf_json.h"
#include "tools/foldcast/perf_plot.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

using ::testing::HasSubstr;

class OutputTest : public ::testing::Test {
 protected:
  OutputTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "foldcast-output-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~OutputTest() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ / name; }
  std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  std::filesystem::path directory_;
};

std::vector<PerfRecord> records() {
  std::vector<PerfRecord> list;
  for (std::uint64_t bytes : {0u, 8u, 4096u, 1048576u}) {
    for (PerfPath asked : {PerfPath::kOffload, PerfPath::kHost}) {
      PerfRecord& one = list.emplace_back();
      one.bytes = bytes;
      one.count = bytes / 4;
      one.nranks = 8;
      one.nnodes = 4;
      one.asked = asked;
      one.ran = bytes == 8 ? PerfPath::kHost : asked;
      one.plan = "ring";
      one.time_us = {1, 2, 3, 4};
      one.wire_tx_bytes = static_cast<std::int64_t>(bytes);
      one.wrong = 0;
    }
  }
  return list;
}

TEST(Json, HasExactlyTheDocumentedKeys) {
  std::vector<PerfRecord> list = records();
  list[3].wrong.reset();
  auto json = nlohmann::json::parse(perf_json(list));
  ASSERT_EQ(json.size(), list.size());
  std::set<std::string> keys;
  for (const auto& [key, value] : json[0].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"collective", "bytes", "count", "dtype", "op", "root", "wire_format", "nranks",
                                         "nnodes", "path", "plan", "in_place", "time_us", "algbw_gbs", "busbw_gbs",
                                         "wire_tx_bytes", "wire_rx_bytes", "wrong"}));
  std::set<std::string> times;
  for (const auto& [key, value] : json[0]["time_us"].items()) times.insert(key);
  EXPECT_EQ(times, (std::set<std::string>{"min", "median", "p99", "max"}));
  EXPECT_EQ(json[0]["path"], "offload");
  EXPECT_EQ(json[2]["path"], "host") << "an offload request that ran on the hosts is a host record";
  EXPECT_EQ(json[4]["busbw_gbs"], json[4]["algbw_gbs"].get<double>() * 1.75);
  EXPECT_EQ(json[2]["wrong"], 0);
  EXPECT_TRUE(json[3]["wrong"].is_null());
}

TEST(Json, HasWhatOnlySomeRecordsHave) {
  std::vector<PerfRecord> list = records();
  list[0].collective = Collective::kScatter;
  list[0].root = 3;
  list[0].overlap = Overlap{10, 12, 80};
  list[1].wire = WireFormat::kFloat8;
  auto json = nlohmann::json::parse(perf_json(list));
  EXPECT_EQ(json[0]["collective"], "scatter");
  EXPECT_EQ(json[0]["op"], "none");
  EXPECT_EQ(json[0]["root"], 3);
  EXPECT_EQ(json[0]["overlap"]["percent"], 80);
  EXPECT_EQ(json[1]["wire_format"], "float8");
  EXPECT_TRUE(json[1]["root"].is_null());
}

TEST_F(OutputTest, AFileAppearsWholeOrNotAtAll) {
  std::ofstream(path("a")) << "old";
  {
    auto file = AtomicFile::create(path("a"));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    ASSERT_TRUE(file->write("half").ok());
  }
  EXPECT_EQ(content("a"), "old");
  EXPECT_EQ(files(), 1u);
  auto file = AtomicFile::create(path("a"));
  ASSERT_TRUE(file->write("new").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content("a"), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, APathThatCannotBeWrittenIsNamed) {
  for (const std::string& bad : {path("none/a"), directory_.string()}) {
    Status status = check_writable(bad);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(bad));
  }
  EXPECT_TRUE(check_writable(path("b")).ok());
  EXPECT_EQ(files(), 0u) << "trying leaves nothing behind";
}

TEST_F(OutputTest, DrawsAnSvg) {
  if (!check_gnuplot().ok()) GTEST_SKIP() << check_gnuplot().message();
  std::vector<PerfRecord> list = records();
  ASSERT_TRUE(write_plot(path("p.svg"), list).ok()) << write_plot(path("p.svg"), list).to_string();
  std::string svg = content("p.svg");
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  for (const char* label :
       {"message size", "time (us)", "busbw (GB/s)", "bytes sent", "offload (1 of 3 ran on host)", "host"}) {
    EXPECT_THAT(svg, HasSubstr(label));
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, DrawsWhatHasNoBytesOnTheWireAndWhatHasNoSizes) {
  if (!check_gnuplot().ok()) GTEST_SKIP() << check_gnuplot().message();
  std::vector<PerfRecord> list = records();
  for (PerfRecord& one : list) one.wire_tx_bytes = 0;
  Status status = write_plot(path("p.svg"), list);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(content("p.svg"), HasSubstr("nothing crossed the network"));
  list.resize(1);  // of 0 bytes
  status = write_plot(path("q.svg"), list);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(content("q.svg"), HasSubstr("no sizes above zero"));
}

TEST_F(OutputTest, SaysWhatGnuplotComplainsOf) {
  if (!check_gnuplot().ok()) GTEST_SKIP() << check_gnuplot().message();
  std::ofstream(path("out"));
  auto file = AtomicFile::create(path("out"));
  Status status = run_gnuplot("set nonsense\n", file->descriptor());
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("gnuplot failed: "));
  EXPECT_THAT(status.message(), HasSubstr("line 0"));
}

}  // namespace
}  // namespace foldcast::tools
