#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "transports/inproc/inproc.h"
#include "transports/shm/shm.h"
#include "transports/striped/striped.h"
#include "transports/ucx/ucx.h"

namespace foldcast::transports {

using namespace std::chrono_literals;

/// A backend under the contract suite: how to make `count` transports that can reach each other.
struct Backend {
  std::string name;
  std::function<std::vector<std::unique_ptr<Transport>>(int count, const std::vector<TransportOptions>&)> make;
  std::size_t eager = 65536;  ///< up to here a send is complete without its receive
};

inline TransportOptions options_of(const std::vector<TransportOptions>& options, int i) {
  return options.empty() ? TransportOptions{.token = 42} : options[static_cast<std::size_t>(i) % options.size()];
}

inline Backend shm_backend(std::string name, bool cross_memory) {
  return {std::move(name),
          [=](int count, const std::vector<TransportOptions>& options) {
            std::vector<std::unique_ptr<Transport>> made;
            for (int i = 0; i < count; ++i) {
              auto transport = make_shm({options_of(options, i), cross_memory});
              if (!transport.ok()) {
                ADD_FAILURE() << transport.status().to_string();
                return std::vector<std::unique_ptr<Transport>>{};
              }
              made.push_back(std::move(*transport));
            }
            return made;
          },
          kMostEager};
}

inline std::vector<Backend> backends() {
  return {
      {"inproc",
       [=](int count, const std::vector<TransportOptions>& options) {
         auto network = make_inproc_network();
         std::vector<std::unique_ptr<Transport>> made;
         for (int i = 0; i < count; ++i) made.push_back(make_inproc(network, options_of(options, i)));
         return made;
       }},
      {"striped",  // before speeds are known
       [=](int count, const std::vector<TransportOptions>& options) {
         const std::array networks = {make_inproc_network(), make_inproc_network()};
         std::vector<std::unique_ptr<Transport>> made;
         for (int i = 0; i < count; ++i) {
           std::vector<std::unique_ptr<Transport>> rails;
           for (const auto& network : networks) rails.push_back(make_inproc(network, options_of(options, i)));
           auto striped = StripedTransport::create(std::move(rails));
           if (!striped.ok()) {
             ADD_FAILURE() << striped.status().to_string();
             return std::vector<std::unique_ptr<Transport>>{};
           }
           made.push_back(*std::move(striped));
         }
         return made;
       }},
      shm_backend("shm", true),
      shm_backend("shm_through_the_ring", false),
      {"ucx",
       [=](int count, const std::vector<TransportOptions>& options) {
         std::vector<std::unique_ptr<Transport>> made;
         for (int i = 0; i < count; ++i) {
           auto transport = make_ucx({options_of(options, i), ""});
           if (!transport.ok()) {
             ADD_FAILURE() << transport.status().to_string();
             return std::vector<std::unique_ptr<Transport>>{};
           }
           made.push_back(std::move(*transport));
         }
         return made;
       }},
  };
}

/// Random bytes whose seed is in the failure message.
class Bytes {
 public:
  Bytes() { RecordSeed(); }
  std::vector<std::byte> operator()(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (auto& byte : bytes) byte = static_cast<std::byte>(engine_());
    return bytes;
  }
  std::mt19937& engine() { return engine_; }

 private:
  void RecordSeed() {
    seed_ = std::random_device{}();
    engine_.seed(seed_);
    ::testing::Test::RecordProperty("seed", std::to_string(seed_));
    trace_ = std::make_unique<::testing::ScopedTrace>(__FILE__, __LINE__, "seed " + std::to_string(seed_));
  }
  unsigned seed_ = 0;
  std::mt19937 engine_;
  std::unique_ptr<::testing::ScopedTrace> trace_;
};

inline const Signature kCall{Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kSum, WireFormat::kExact, 0, 100};

inline MessageKey key(std::uint64_t tag = 0, std::uint32_t communicator = 1, std::uint64_t sequence = 7) {
  return {.communicator = communicator, .fragment = 0, .sequence = sequence, .tag = tag};
}

/// Transports of a group driven by one thread: every wait polls them all.
class Ranks {
 public:
  Ranks(const Backend& backend, int count, const std::vector<TransportOptions>& options = {})
      : transports_(backend.make(count, options)), done_(transports_.size()), peers_(transports_.size()) {
    if (transports_.empty()) std::abort();
  }

  void connect_all() {
    for (int i = 0; i < size(); ++i) {
      for (int j = 0; j < size(); ++j) connect(i, j);
    }
  }
  void connect(int from, int to) {
    auto peer = at(from).connect(at(to).address(), "rank " + std::to_string(to));
    ASSERT_TRUE(peer.ok()) << peer.status().to_string();
    peers_[static_cast<std::size_t>(from)][to] = *peer;
  }

  int size() const { return static_cast<int>(transports_.size()); }
  Transport& at(int rank) { return *transports_[static_cast<std::size_t>(rank)]; }
  void destroy(int rank) { transports_[static_cast<std::size_t>(rank)].reset(); }
  std::int32_t peer(int from, int to) { return peers_[static_cast<std::size_t>(from)].at(to); }

  std::uint64_t send(int from, int to, const MessageKey& k, const std::vector<std::byte>& data, Signature s = kCall) {
    EngineCall call;
    call.verb = Verb::kSend;
    call.peer = peer(from, to);
    call.input = data.data();
    call.bytes = data.size();
    call.key = k;
    call.signature = s;
    return post(from, call);
  }
  std::uint64_t recv(int at_rank, int from, const MessageKey& k, std::byte* data, std::size_t room,
                     Signature s = kCall) {
    EngineCall call;
    call.verb = Verb::kRecv;
    call.peer = peer(at_rank, from);
    call.output = data;
    call.bytes = room;
    call.key = k;
    call.signature = s;
    return post(at_rank, call);
  }
  std::uint64_t recv(int at_rank, int from, const MessageKey& k, std::vector<std::byte>& data, Signature s = kCall) {
    return recv(at_rank, from, k, data.data(), data.size(), s);
  }

  std::uint64_t post(int rank, const EngineCall& call) {
    std::uint64_t cookie = ++cookie_;
    auto deadline = Deadline::after(10s);
    while (at(rank).post(call, cookie) == Posted::kRetry) {
      pump();
      if (deadline.passed()) {
        ADD_FAILURE() << "post() asked to retry for 10 s";
        break;
      }
    }
    return cookie;
  }

  void pump() {
    Completion out[16];
    for (int rank = 0; rank < size(); ++rank) {
      if (!transports_[static_cast<std::size_t>(rank)]) continue;
      std::size_t count = at(rank).poll(out);
      for (std::size_t i = 0; i < count; ++i) {
        bool fresh = done_[static_cast<std::size_t>(rank)].emplace(out[i].cookie, out[i]).second;
        EXPECT_TRUE(fresh) << "two completions of one call";
      }
    }
  }
  void pump_for(std::chrono::milliseconds time) {
    for (auto deadline = Deadline::after(time); !deadline.passed();) pump();
  }
  bool finished(int rank, std::uint64_t cookie) { return done_[static_cast<std::size_t>(rank)].contains(cookie); }

  Completion wait(int rank, std::uint64_t cookie, std::chrono::milliseconds limit = 10000ms) {
    auto& done = done_[static_cast<std::size_t>(rank)];
    for (auto deadline = Deadline::after(limit); !done.contains(cookie);) {
      if (deadline.passed()) {
        ADD_FAILURE() << "rank " << rank << ": call " << cookie << " did not complete in " << limit.count() << " ms";
        return {cookie, timeout("the test's wait"), 0, {}};
      }
      pump();
    }
    return done.at(cookie);
  }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::map<std::uint64_t, Completion>> done_;
  std::vector<std::map<int, std::int32_t>> peers_;
  std::uint64_t cookie_ = 0;
};

}  // namespace foldcast::transports
