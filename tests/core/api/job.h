#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/api/communicator.h"
#include "core/base/unique_fd.h"
#include "transports/inproc/inproc.h"

namespace foldcast::testing {

/// A port nobody listens on at the moment.
inline std::uint16_t free_port() {
  UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  FOLDCAST_CHECK(::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), length) == 0, "bind");
  FOLDCAST_CHECK(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname");
  return ntohs(address.sin_port);
}

/// A job whose ranks are threads over one in-process network. `nodes[r]` is the node of rank r.
struct Job {
  std::vector<int> nodes;
  std::map<std::string, std::string> environment;
  std::shared_ptr<transports::InprocNetwork> network = transports::make_inproc_network();

  /// Runs `body` as every rank and joins. A rank that cannot join the job fails the test.
  void run(const std::function<void(api::WorldCommunicator& world, int rank)>& body) {
    const std::uint16_t port = free_port();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
      ranks.emplace_back([&, rank] {
        auto settings = environment;
        settings["FOLDCAST_HOST_ID"] = "host-" + std::to_string(nodes[rank]);
        settings["FOLDCAST_HOSTNAME"] = "node" + std::to_string(nodes[rank]);
        auto config = Config::from(settings);
        ASSERT_TRUE(config.ok()) << config.status().to_string();
        bootstrap::LaunchInfo launch;
        launch.rank = rank;
        launch.size = static_cast<int>(nodes.size());
        launch.store_host = "127.0.0.1";
        launch.store_port = port;
        auto world = api::WorldCommunicator::create(std::move(*config), launch, [this](std::uint64_t token) {
          transports::TransportOptions options;
          options.token = token;
          return Result<std::unique_ptr<transports::Transport>>(transports::make_inproc(network, options));
        });
        ASSERT_TRUE(world.ok()) << "rank " << rank << ": " << world.status().to_string();
        body(**world, rank);
      });
    }
    for (auto& rank : ranks) rank.join();
  }
};

inline std::vector<int> uniform_nodes(int nodes, int ranks_per_node) {
  std::vector<int> all;
  for (int i = 0; i < nodes * ranks_per_node; ++i) all.push_back(i / ranks_per_node);
  return all;
}

}  // namespace foldcast::testing
