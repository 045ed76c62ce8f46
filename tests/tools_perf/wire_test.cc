#include "tools/foldcast/perf_wire.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace foldcast::tools {
namespace {

constexpr const char* kNetDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
    "compressed\n"
    "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n"
    "  eth0: 5000000000 2 0 0 0 0 0 0 7 3 0 0 0 0 0 0\n"
    "  eth1:11 2 0 0 0 0 0 0 13 3 0 0 0 0 0 0\n";

TEST(Wire, SumsEveryInterfaceButTheLoopback) {
  auto file = std::filesystem::temp_directory_path() / ("foldcast-net-" + std::to_string(::getpid()));
  std::ofstream(file) << kNetDev;
  auto bytes = read_wire({.net_dev = file, .infiniband = "/nonexistent"});
  std::ofstream(file) << "  eth0: 1 2 3\n";
  auto short_line = read_wire({.net_dev = file, .infiniband = "/nonexistent"});
  std::filesystem::remove(file);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->rx, 5000000011);
  EXPECT_EQ(bytes->tx, 20);
  EXPECT_FALSE(short_line.ok());
}

TEST(Wire, AddsRdmaPortsInUnitsOfFourBytes) {
  auto root = std::filesystem::temp_directory_path() / ("foldcast-wire-" + std::to_string(::getpid()));
  auto counters = root / "mlx5_0" / "ports" / "1" / "counters";
  std::filesystem::create_directories(counters);
  std::ofstream(counters / "port_xmit_data") << "100\n";
  std::ofstream(counters / "port_rcv_data") << "25\n";
  std::ofstream(root / "net") << kNetDev;
  auto bytes = read_wire({.net_dev = root / "net", .infiniband = root});
  std::filesystem::remove_all(root);
  ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
  EXPECT_EQ(bytes->tx, 420);
  EXPECT_EQ(bytes->rx, 5000000111);
}

TEST(Wire, ReadsThisMachineAndSaysWhatItCannotRead) {
  EXPECT_TRUE(read_wire().ok());
  auto bytes = read_wire({.net_dev = "/nonexistent/net/dev"});
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.status().message().find("/nonexistent/net/dev"), std::string::npos);
}

}  // namespace
}  // namespace foldcast::tools
