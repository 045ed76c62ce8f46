#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/api/communicator.h"
#include "core/api/world.h"
#include "tests/core/bootstrap/free_port.h"
#include "transports/inproc/inproc.h"

namespace foldcast::testing {

/// A job whose ranks are threads over one in-process network. `nodes[r]` is the node of rank r.
struct Job {
  std::vector<int> nodes;
  std::map<std::string, std::string> environment;
  std::map<int, std::map<std::string, std::string>> of_rank = {};  ///< over `environment`
  bool deaf = false;  ///< no rank's messages reach another: each has a token of its own
  std::shared_ptr<transports::InprocNetwork> network = transports::make_inproc_network();

  /// Runs `body` as every rank and joins. A rank that cannot join the job fails the test.
  void run(const std::function<void(api::Communicator& world, int rank)>& body) {
    attempt([&](Result<std::unique_ptr<api::Communicator>> world, int rank) {
      ASSERT_TRUE(world.ok()) << "rank " << rank << ": " << world.status().to_string();
      body(**world, rank);
    });
  }

  /// As run(), with whatever came of joining.
  void attempt(const std::function<void(Result<std::unique_ptr<api::Communicator>> world, int rank)>& body) {
    const std::uint16_t port = bootstrap::free_port();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
      ranks.emplace_back([&, rank] {
        auto settings = environment;
        if (const auto own = of_rank.find(rank); own != of_rank.end()) {
          for (const auto& [name, value] : own->second) settings[name] = value;
        }
        settings["FOLDCAST_HOST_ID"] = "host-" + std::to_string(nodes[rank]);
        settings["FOLDCAST_HOSTNAME"] = "node" + std::to_string(nodes[rank]);
        settings.emplace("FOLDCAST_CALIBRATION", "off");
        auto config = Config::from(settings);
        ASSERT_TRUE(config.ok()) << config.status().to_string();
        bootstrap::LaunchInfo launch;
        launch.rank = rank;
        launch.size = static_cast<int>(nodes.size());
        launch.store_host = "127.0.0.1";
        launch.store_port = port;
        const transports::TransportFactory inproc = [this, rank](std::uint64_t token) {
          transports::TransportOptions options;
          options.token = deaf ? token + static_cast<std::uint64_t>(rank) : token;
          return Result<std::unique_ptr<transports::Transport>>(transports::make_inproc(network, options));
        };
        auto world = api::create_world(std::move(*config), launch, {inproc, inproc});
        body(std::move(world), rank);
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
