// Threads that own one transport each and sleep on its descriptor, as ranks do.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <thread>

#include "tests/transports/ranks.h"

namespace foldcast::transports {
namespace {

/// One rank on a thread of its own, which sleeps whenever there is nothing to do.
class SleepingRank {
 public:
  SleepingRank(Transport& transport, std::int32_t peer) : transport_(transport), peer_(peer) {}

  void post(Verb verb, std::uint64_t tag, std::byte* data, std::size_t bytes) {
    EngineCall call;
    call.verb = verb;
    call.peer = peer_;
    call.input = call.output = data;
    call.bytes = bytes;
    call.key = key(tag);
    call.signature = kCall;
    while (transport_.post(call, tag) == Posted::kRetry) turn();
    ++outstanding_;
  }
  /// False when something failed or took longer than 5 s: a lost wake-up shows as a sleep that ends by its limit.
  bool drain() {
    while (outstanding_ > 0 && !failed_) turn();
    return !failed_;
  }

 private:
  void turn() {
    Completion out[8];
    std::size_t count = transport_.poll(out);
    for (std::size_t i = 0; i < count; ++i) {
      --outstanding_;
      if (out[i].status.ok()) continue;
      ADD_FAILURE() << out[i].status.to_string();
      failed_ = true;
    }
    if (count > 0 || !transport_.arm()) return;
    pollfd waiting{transport_.descriptor(), POLLIN, 0};
    if (::poll(&waiting, 1, 5000) == 0) {
      ADD_FAILURE() << "slept for 5 s with " << outstanding_ << " calls outstanding";
      failed_ = true;
    }
  }

  Transport& transport_;
  std::int32_t peer_;
  long outstanding_ = 0;
  bool failed_ = false;
};

class SleepingTransport : public ::testing::TestWithParam<Backend> {
 protected:
  /// Runs `body(rank, me)` on two threads.
  template <typename Body>
  void run(Body body) {
    auto transports = GetParam().make(2, {});
    ASSERT_EQ(transports.size(), 2u);
    std::thread threads[2];
    std::string addresses[2] = {transports[0]->address(), transports[1]->address()};
    for (std::size_t me : {0u, 1u}) {
      threads[me] = std::thread([&, me] {
        auto peer = transports[me]->connect(addresses[1 - me], "the other rank");
        ASSERT_TRUE(peer.ok()) << peer.status().to_string();
        SleepingRank rank(*transports[me], *peer);
        body(rank, me);
        transports[me].reset();
      });
    }
    for (auto& thread : threads) thread.join();
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, SleepingTransport, ::testing::ValuesIn(backends()),
                         [](const auto& backend) { return backend.param.name; });

TEST_P(SleepingTransport, ThousandsOfPingPongsLoseNoWakeUp) {
  run([](SleepingRank& rank, std::size_t me) {
    std::uint64_t value = 0;
    auto* data = reinterpret_cast<std::byte*>(&value);
    for (std::uint64_t i = 0; i < 5000; ++i) {
      if (me == 1) rank.post(Verb::kRecv, i, data, sizeof value);
      if (me == 1 && !rank.drain()) return;
      if (me == 0) value = i * 3;
      rank.post(Verb::kSend, i, data, sizeof value);
      if (me == 0) rank.post(Verb::kRecv, i, data, sizeof value);
      if (!rank.drain()) return;
      ASSERT_EQ(value, i * 3);
    }
  });
}

// More than any queue holds, so that the sender sleeps until the receiver, who sleeps as well, has made room.
TEST_P(SleepingTransport, AStreamOneWayLosesNoWakeUp) {
  run([](SleepingRank& rank, std::size_t me) {
    constexpr std::size_t kMessages = 200;
    std::vector<std::byte> data(kMessages * 8000, std::byte{7});
    for (int round = 0; round < 20; ++round) {
      for (std::size_t i = 0; i < kMessages; ++i) {
        rank.post(me == 0 ? Verb::kSend : Verb::kRecv, i, data.data() + i * 8000, 8000);
      }
      if (!rank.drain()) return;
      // An answer, so that the rounds do not run into each other.
      rank.post(me == 0 ? Verb::kRecv : Verb::kSend, kMessages, data.data(), 1);
      if (!rank.drain()) return;
    }
  });
}

TEST_P(SleepingTransport, LargeMessagesBothWaysLoseNoWakeUp) {
  run([](SleepingRank& rank, std::size_t me) {
    for (std::size_t size : {std::size_t{65536}, std::size_t{1} << 20, std::size_t{6} << 20}) {
      std::vector<std::byte> out(size, static_cast<std::byte>(me + 1)), in(size);
      for (std::uint64_t i = 0; i < 8; ++i) {
        rank.post(Verb::kSend, i, out.data(), size);
        rank.post(Verb::kRecv, i, in.data(), size);
        if (!rank.drain()) return;
        ASSERT_EQ(in, std::vector<std::byte>(size, static_cast<std::byte>(2 - me)));
      }
    }
  });
}

}  // namespace
}  // namespace foldcast::transports
