// What backends between processes must stand: peers that are killed or stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/transports/ranks.h"

namespace foldcast::transports {
namespace {

using ::testing::HasSubstr;

/// A process of its own with one transport that polls (or does what `behaviour` says) until it is killed.
class PeerProcess {
 public:
  /// `behaviour(transport, peer)` runs in the child, for ever. Forked before this process has a transport: UCX's
  /// threads do not survive a fork.
  template <typename Behaviour>
  PeerProcess(const Backend& backend, Behaviour behaviour) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::alarm(60);  // never outlives a test that went wrong
      const auto made = backend.make(1, {});
      if (made.empty()) ::_exit(1);
      Transport& transport = *made.front();
      std::string mine = transport.address(), theirs(4096, '\0');
      if (::send(ends[1], mine.data(), mine.size(), 0) < 0) ::_exit(1);
      theirs.resize(static_cast<std::size_t>(::recv(ends[1], theirs.data(), theirs.size(), 0)));
      auto peer = transport.connect(theirs, "the parent");
      if (!peer.ok()) ::_exit(1);
      behaviour(transport, *peer);
      ::_exit(0);
    }
    ::close(ends[1]);
    socket_ = ends[0];
  }
  ~PeerProcess() {
    kill();
    ::close(socket_);
  }
  /// Exchanges addresses.
  std::int32_t meet(Transport& transport, std::string_view name) {
    std::string theirs(4096, '\0'), mine = transport.address();
    theirs.resize(static_cast<std::size_t>(::recv(socket_, theirs.data(), theirs.size(), 0)));
    EXPECT_GT(::send(socket_, mine.data(), mine.size(), 0), 0);
    auto peer = transport.connect(theirs, name);
    EXPECT_TRUE(peer.ok()) << peer.status().to_string();
    return *peer;
  }
  void signal(int number) { ::kill(pid_, number); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

void turn(Transport& transport, std::vector<Completion>& done, std::chrono::milliseconds nap = 10ms) {
  Completion out[16];
  std::size_t count = transport.poll(out);
  done.insert(done.end(), out, out + count);
  if (count > 0 || !transport.arm()) return;
  pollfd waiting{transport.descriptor(), POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(nap.count()));
}

void poll_for_ever(Transport& transport, std::int32_t) {
  for (std::vector<Completion> done;;) turn(transport, done);
}

EngineCall call_of(Verb verb, std::int32_t peer, std::uint64_t tag, std::vector<std::byte>& data) {
  EngineCall call;
  call.verb = verb;
  call.peer = peer;
  call.input = call.output = data.data();
  call.bytes = data.size();
  call.key = key(tag);
  call.signature = kCall;
  return call;
}

class PeerFailure : public ::testing::TestWithParam<Backend> {
 protected:
  void make_transport() {
    auto made = GetParam().make(1, {});
    ASSERT_EQ(made.size(), 1u);
    transport_ = std::move(made.front());
  }
  /// A transport connected to `process`; a while passes so that the connection is there.
  void meet(PeerProcess& process) {
    make_transport();
    peer_ = process.meet(*transport_, "rank 1 (node1)");
    for (auto deadline = Deadline::after(100ms); !deadline.passed();) turn(*transport_, done_);
  }
  /// Sleeps until `count` calls have completed, at most `limit`; how long that took.
  std::chrono::milliseconds wait_for(std::size_t count, std::chrono::milliseconds limit) {
    auto start = Deadline::Clock::now();
    auto deadline = Deadline::after(limit);
    // Long naps: the failure itself must wake us.
    while (done_.size() < count && !deadline.passed()) turn(*transport_, done_, limit);
    EXPECT_EQ(done_.size(), count) << "after " << limit.count() << " ms";
    return std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - start);
  }
  void expect_peer_failed() {
    for (const Completion& completion : done_) {
      EXPECT_EQ(completion.status.code(), Code::kPeerFailed) << completion.status.to_string();
      EXPECT_THAT(completion.status.message(), HasSubstr("rank 1 (node1)"));
    }
  }

  std::unique_ptr<Transport> transport_;
  std::int32_t peer_ = -1;
  std::vector<Completion> done_;
};

std::vector<Backend> between_processes() {
  auto all = backends();
  std::erase_if(all, [](const Backend& one) { return one.name == "inproc" || one.name == "striped"; });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Backends, PeerFailure, ::testing::ValuesIn(between_processes()),
                         [](const auto& backend) { return backend.param.name; });

TEST_P(PeerFailure, AKilledPeerWakesWhoOnlyReceives) {
  PeerProcess process(GetParam(), poll_for_ever);
  meet(process);
  std::vector<std::byte> data(8);
  for (std::uint64_t tag = 0; tag < 3; ++tag) transport_->post(call_of(Verb::kRecv, peer_, tag, data), tag);
  process.kill();
  EXPECT_LT(wait_for(3, 5000ms), 1000ms);
  expect_peer_failed();
}

TEST_P(PeerFailure, AKilledPeerEndsSendsInFlight) {
  // A stopped peer takes nothing, so that sends of every kind are in flight when it is killed.
  PeerProcess process(GetParam(), poll_for_ever);
  meet(process);
  process.signal(SIGSTOP);
  std::vector<std::byte> small(8), middle(65536), large(8u << 20);
  std::size_t posted = 0;
  for (int i = 0; i < 200; ++i) {
    for (auto* data : {&small, &middle, &large}) {
      ASSERT_EQ(transport_->post(call_of(Verb::kSend, peer_, posted, *data), posted), Posted::kAccepted);
      ++posted;
    }
  }
  for (auto deadline = Deadline::after(100ms); !deadline.passed();) turn(*transport_, done_);
  std::size_t early = done_.size();
  for (auto& completion : done_) EXPECT_TRUE(completion.status.ok());
  ASSERT_LT(early, posted) << "nothing was in flight";
  done_.clear();
  process.kill();
  EXPECT_LT(wait_for(posted - early, 5000ms), 1000ms);
  expect_peer_failed();
}

TEST_P(PeerFailure, AKilledPeerEndsLargeReceivesInFlight) {
  constexpr std::size_t kSize = 64u << 20;
  PeerProcess process(GetParam(), [](Transport& transport, std::int32_t peer) {
    std::vector<std::byte> data(kSize);
    transport.post(call_of(Verb::kSend, peer, 1, data), 1);
    // Stop in the middle of the transfer.
    std::vector<Completion> done;
    for (auto deadline = Deadline::after(105ms); !deadline.passed();) turn(transport, done, 1ms);
    ::raise(SIGSTOP);
  });
  meet(process);
  std::vector<std::byte> data(kSize);
  transport_->post(call_of(Verb::kRecv, peer_, 1, data), 1);
  for (auto deadline = Deadline::after(20ms); !deadline.passed();) turn(*transport_, done_);
  process.kill();
  EXPECT_LT(wait_for(1, 5000ms), 1000ms);
  if (!done_[0].status.ok()) expect_peer_failed();  // it may have been quick
  done_.clear();
  transport_->post(call_of(Verb::kRecv, peer_, 2, data), 2);
  wait_for(1, 1000ms);
  expect_peer_failed();
}

TEST_P(PeerFailure, ConnectingToADeadPeerFailsItsCalls) {
  PeerProcess process(GetParam(), poll_for_ever);
  make_transport();
  process.kill();  // after it wrote its address, or before: then there is none to connect to
  auto another = GetParam().make(1, {});
  ASSERT_EQ(another.size(), 1u);
  std::string address = another.front()->address();
  another.clear();
  auto peer = transport_->connect(address, "rank 1 (node1)");
  ASSERT_TRUE(peer.ok()) << peer.status().to_string();
  std::vector<std::byte> data(8);
  transport_->post(call_of(Verb::kRecv, *peer, 1, data), 1);
  transport_->post(call_of(Verb::kSend, *peer, 1, data), 2);
  EXPECT_LT(wait_for(2, 5000ms), 1000ms);
  expect_peer_failed();
}

TEST_P(PeerFailure, CancelComesBackFromAStoppedPeerAndItsBuffersAreFree) {
  PeerProcess process(GetParam(), poll_for_ever);
  meet(process);
  process.signal(SIGSTOP);
  std::vector<std::byte> large(8u << 20);
  for (std::uint64_t tag = 0; tag < 3; ++tag) transport_->post(call_of(Verb::kSend, peer_, tag, large), tag);
  auto start = Deadline::Clock::now();
  transport_->cancel(1);
  EXPECT_LT(Deadline::Clock::now() - start, 2500ms);
  large = {};
  wait_for(3, 100ms);
  for (auto& completion : done_) EXPECT_EQ(completion.status.code(), Code::kAborted) << completion.status.to_string();
  start = Deadline::Clock::now();
  transport_.reset();
  EXPECT_LT(Deadline::Clock::now() - start, 2500ms);
}

TEST_P(PeerFailure, AStoppedPeerDoesNotHoldUpTheEnd) {
  PeerProcess process(GetParam(), poll_for_ever);
  meet(process);
  process.signal(SIGSTOP);
  std::vector<std::byte> large(8u << 20), small(65536);
  for (std::uint64_t tag = 0; tag < 300; ++tag) transport_->post(call_of(Verb::kSend, peer_, tag, small), tag);
  transport_->post(call_of(Verb::kSend, peer_, 1000, large), 1000);
  auto start = Deadline::Clock::now();
  transport_.reset();
  EXPECT_LT(Deadline::Clock::now() - start, 2500ms);
}

}  // namespace
}  // namespace foldcast::transports
