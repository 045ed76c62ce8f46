#include "fixture.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "offload/protocol/control.h"

namespace foldcast::offload {

DaemonThread::DaemonThread(DaemonOptions options, TransportFactory factory)
    : interrupt_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  options.interrupt_fd = interrupt_.get();
  auto daemon = Daemon::create(std::move(options), std::move(factory));
  EXPECT_TRUE(daemon.ok()) << daemon.status().to_string();
  daemon_ = std::move(*daemon);
  port_ = daemon_->port();
  thread_ = std::thread([this] { run(); });
}

void DaemonThread::run() {
  while (!stopping_.load()) {
    daemon_->step(std::chrono::milliseconds(100));
    const std::lock_guard lock(mutex_);
    stats_ = daemon_->stats();
  }
  if (farewell_.load()) daemon_->farewell();
  {
    const std::lock_guard lock(mutex_);
    stats_ = daemon_->stats();
  }
  daemon_.reset();
}

void DaemonThread::stop(bool farewell) {
  if (!thread_.joinable()) return;
  farewell_.store(farewell);
  stopping_.store(true);
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(interrupt_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  thread_.join();
}

bool DaemonThread::eventually(const std::function<bool(const DaemonStats&)>& predicate) {
  for (int i = 0; i < 1000; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (predicate(stats_)) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TransportFactory Fabric::factory() const {
  return [network = network_](std::uint64_t token) -> Result<std::unique_ptr<transports::Transport>> {
    transports::TransportOptions options;
    options.token = token;
    return transports::make_inproc(network, options);
  };
}

void Fabric::build(const std::vector<std::int32_t>& parents, std::size_t members, bool everywhere) {
  tree_ = {};
  daemons_.clear();
  std::vector<bool> inner(parents.size(), false);
  for (const std::int32_t parent : parents) {
    if (parent >= 0) inner[parent] = true;
  }
  std::vector<std::int32_t> places;
  for (std::size_t v = 0; v < parents.size(); ++v) {
    DaemonOptions options = options_;
    options.name = "switch" + std::to_string(v);
    options.host = "127.0.0.1";
    daemons_.push_back(std::make_unique<DaemonThread>(options, special_.contains(v) ? special_.at(v) : factory()));
    tree_.vertices.push_back(
        {options.name, "127.0.0.1:" + std::to_string(daemons_.back()->port()), parents[v], {}, {}});
    if (parents[v] >= 0) tree_.vertices[parents[v]].children.push_back(static_cast<std::int32_t>(v));
    if (everywhere || !inner[v]) places.push_back(static_cast<std::int32_t>(v));
  }
  for (std::size_t m = 0; m < members; ++m) {
    const std::int32_t place = places[m % places.size()];
    tree_.parent_of_member.push_back(place);
    tree_.vertices[place].members.push_back(static_cast<std::int32_t>(m));
    tree_.hosts.push_back("host" + std::to_string(m));
  }
  ASSERT_TRUE(tree_.validate().ok()) << tree_.validate().to_string();
}

JoinRequest Fabric::request(std::int32_t member, std::uint32_t group) const {
  JoinRequest request;
  request.tree = &tree_;
  request.group = group;
  request.job_token = 0xfeedface;
  request.job = "test";
  request.member = member;
  request.key = options_.key;
  request.timeout = std::chrono::seconds(20);
  request.fragment_timeout = std::chrono::seconds(20);
  return request;
}

void Fabric::run(const Body& body) const {
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < size(); ++m) {
    threads.emplace_back([&, m] {
      const auto provider = make_aggregator_provider(factory());
      body(static_cast<std::int32_t>(m), *provider);
    });
  }
  for (auto& thread : threads) thread.join();
}

void Fabric::run_joined(const GroupBody& body) const {
  std::atomic<std::size_t> answered{0};
  run([&](std::int32_t member, OffloadProvider& provider) {
    auto group = provider.join(request(member));
    ++answered;
    ASSERT_TRUE(group.ok()) << "member " << member << ": " << group.status().to_string();
    // As a communicator does: nobody calls before all are in. Every join answers by its own deadline.
    while (answered.load() < size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    body(member, **group);
  });
}

Completion await(OffloadGroup& group, std::chrono::milliseconds patience) {
  const Deadline deadline = Deadline::after(patience);
  Completion completion;
  while (group.poll({&completion, 1}) == 0) {
    if (deadline.passed()) {
      completion.status = timeout("the test waited for a completion for too long");
      return completion;
    }
    if (!group.arm()) continue;
    pollfd fd{group.descriptor(), POLLIN, 0};
    ::poll(&fd, 1, deadline.poll_timeout());
  }
  return completion;
}

EngineCall all_reduce(Datatype dtype, ReduceOp op, std::uint64_t count, const void* input, void* output) {
  EngineCall call;
  call.verb = Verb::kAllReduce;
  call.input = static_cast<const std::byte*>(input);
  call.output = static_cast<std::byte*>(output);
  call.count = count;
  call.signature = {Collective::kAllReduce, dtype, op, WireFormat::kExact, 0, count};
  return call;
}

EngineCall barrier() {
  EngineCall call;
  call.verb = Verb::kBarrier;
  return call;
}

}  // namespace foldcast::offload
