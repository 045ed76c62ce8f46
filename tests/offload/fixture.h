#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/unique_fd.h"
#include "offload/aggregator/daemon.h"
#include "offload/client/provider.h"
#include "transports/inproc/inproc.h"

namespace foldcast::offload {

/// A Daemon on a thread of its own.
class DaemonThread {
 public:
  DaemonThread(DaemonOptions options, TransportFactory factory);
  ~DaemonThread() { stop(true); }
  /// With a farewell, or as if killed.
  void stop(bool farewell);
  std::uint16_t port() const { return port_; }
  /// After stop().
  const DaemonStats& stats() const { return stats_; }
  /// Waits until `predicate` of the daemon's statistics holds; false after ten seconds.
  bool eventually(const std::function<bool(const DaemonStats&)>& predicate);

 private:
  void run();

  UniqueFd interrupt_;
  std::unique_ptr<Daemon> daemon_;
  std::uint16_t port_ = 0;
  std::atomic<bool> farewell_{true}, stopping_{false};
  std::mutex mutex_;
  DaemonStats stats_;  ///< guarded by mutex_
  std::thread thread_;
};

/// Aggregators and members of one group as threads over an in-process network.
class Fabric {
 public:
  explicit Fabric(DaemonOptions options = {})
      : options_(std::move(options)), network_(transports::make_inproc_network()) {}

  /// `parents[v]` is the parent of vertex v; the members go round the vertices without children (or all, if
  /// `everywhere`).
  void build(const std::vector<std::int32_t>& parents, std::size_t members, bool everywhere = false);
  TransportFactory factory() const;
  /// What the aggregator of `vertex` uses in place of factory(); call before build().
  void replace_factory(std::size_t vertex, TransportFactory factory) { special_[vertex] = std::move(factory); }

  JoinRequest request(std::int32_t member, std::uint32_t group = kGroupBit | 1) const;
  /// `body` once per member, each on a thread with its own provider.
  using Body = std::function<void(std::int32_t member, OffloadProvider& provider)>;
  void run(const Body& body) const;
  /// run() with a joined group, after all have joined; a refusal fails the test.
  using GroupBody = std::function<void(std::int32_t member, OffloadGroup& group)>;
  void run_joined(const GroupBody& body) const;

  std::size_t size() const { return tree_.parent_of_member.size(); }
  const Tree& tree() const { return tree_; }
  DaemonThread& daemon(std::size_t vertex) { return *daemons_[vertex]; }

 private:
  DaemonOptions options_;
  std::shared_ptr<transports::InprocNetwork> network_;
  std::map<std::size_t, TransportFactory> special_;
  Tree tree_;
  std::vector<std::unique_ptr<DaemonThread>> daemons_;
};

/// The next completion, sleeping as a rank does; an error after `patience`.
Completion await(OffloadGroup& group, std::chrono::milliseconds patience = std::chrono::seconds(20));

EngineCall all_reduce(Datatype dtype, ReduceOp op, std::uint64_t count, const void* input, void* output);
EngineCall barrier();

}  // namespace foldcast::offload
