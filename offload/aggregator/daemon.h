#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/bootstrap/channel.h"
#include "offload/aggregator/connector.h"
#include "offload/aggregator/hosted_group.h"
#include "offload/aggregator/quota.h"
#include "transports/transport.h"

namespace foldcast::offload {

using transports::TransportFactory;

struct DaemonOptions {
  std::string name;           ///< for people: "rack0"
  std::string host;           ///< to listen on; empty: all addresses
  std::uint16_t port = 0;     ///< 0: any
  std::string key;            ///< children and parents prove that they have it; empty: nobody proves anything
  std::uint32_t window = 16;  ///< fragments in flight per group, at most
  std::uint32_t fragment = 64 * 1024;
  std::chrono::milliseconds lease{5000};
  QuotaLimits limits;
  /// When this becomes readable step() returns false; not owned, not read. -1: none.
  int interrupt_fd = -1;
};

struct DaemonStats {
  DataCounters data;
  std::uint32_t groups = 0, jobs = 0;  ///< now
  std::uint64_t groups_granted = 0, groups_failed = 0;
  std::uint64_t memory = 0, peak_memory = 0;
  std::uint64_t strangers = 0;                   ///< connections that never got through the handshake
  std::uint64_t dropped = 0;                     ///< data messages with a wrong token, of an ended group or malformed
  std::map<std::string, std::uint64_t> rejects;  ///< joins by reason
};

/// An aggregator: one thread, any number of jobs and groups, asleep when there is nothing to do. Each job has a
/// transport of its own with the job's token, so that the transport refuses strangers' messages before a slot is
/// touched. Not thread-safe. Failures of a group end that group only.
class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> create(DaemonOptions options, TransportFactory make_transport);
  ~Daemon();

  std::uint16_t port() const { return listener_->port(); }
  /// Serves what is there, sleeping for up to `patience` when nothing is. False: the interrupt descriptor is readable.
  bool step(std::chrono::milliseconds patience);
  /// Ends all groups, telling everyone, and waits up to a second for that to be sent. Ending a group, here, in step()
  /// and in the destructor, may also wait up to 1.5 s for each peer that is stuck in the middle of a transfer: see
  /// cancel() of the transport.
  void farewell();
  DaemonStats stats() const;

 private:
  struct Job {
    std::uint64_t token = 0;
    std::uint64_t serial = 0;
    std::unique_ptr<transports::Transport> transport;
    std::map<std::uint32_t, HostedGroup*> groups;  ///< by the job's id
    std::set<std::uint32_t> spent;                 ///< ids that the transport no longer delivers
    bool awake = true;                             ///< to be polled before sleeping
    Time idle_since;
  };
  struct Group {
    std::unique_ptr<HostedGroup> hosted;
    Job* job = nullptr;
    std::uint64_t reserved = 0;
    std::string parent_join;  ///< encoded, while the connection to the parent is being made
    std::uint64_t parent_link = 0;
    std::vector<std::uint64_t> child_links;
  };
  struct Link {
    std::unique_ptr<bootstrap::Channel> channel{};
    std::uint32_t group = 0;  ///< 0: not joined yet, or no longer
    std::int32_t party = kParent;
    bool closing = false;
    Time until{};  ///< of a link without a group
    bool wants_write = false;
  };

  Daemon(DaemonOptions options, TransportFactory make_transport);
  Status open();
  Status watch(int fd, std::uint64_t tag);
  int sleep_ms(std::chrono::milliseconds patience) const;
  bool dispatch(std::uint64_t tag, Time now);
  void accept_links(Time now);
  void serve_link(std::uint64_t id, Time now);
  void on_frame(std::uint64_t id, const std::string& bytes, Time now);
  void on_join(std::uint64_t id, const Join& join, Time now);
  Result<Group*> group_for(const Join& join, Time now);
  Result<Job*> job_for(std::uint64_t token, Time now);
  void refuse(std::uint64_t id, std::uint32_t group, const Status& why, const std::string& category);
  void take_uplinks();
  static std::uint64_t link_tag(std::uint64_t id);
  std::uint64_t add_link(std::unique_ptr<bootstrap::Channel> channel, Link link);
  void close_link(std::uint64_t id, Time now);
  void drop_link(std::uint64_t id);
  void write_watch(std::uint64_t id);
  void perform_control(Group& group, Time now);
  void perform_one(Group& group, ControlAction& action, Time now);
  void send(std::uint64_t id, const std::string& bytes);
  void lose_link(std::uint64_t id, const Status& why);
  void reap(Group& group, Time now);
  void poll_jobs(Time now);
  bool poll_job(Job& job, Time now);
  void on_time(Time now);
  void schedule(Time at) { next_time_ = std::min(next_time_, at); }

  const DaemonOptions options_;
  const TransportFactory make_transport_;
  AggregatorTraits traits_;
  UniqueFd epoll_;
  std::unique_ptr<bootstrap::ChannelListener> listener_;
  Quota quota_;
  DataCounters data_;
  DaemonStats totals_;
  std::map<std::uint64_t, std::unique_ptr<Job>> jobs_;  ///< by token; outlive their groups
  std::unordered_map<std::uint32_t, Group> groups_;     ///< by running number
  std::unordered_map<std::uint64_t, Link> links_;
  std::unique_ptr<Connector> connector_;
  std::vector<std::uint32_t> touched_;  ///< groups that may have control actions
  std::uint64_t next_link_ = 1, next_job_ = 1;
  std::uint32_t next_group_ = 1;
  Time next_time_ = Time::max();
};

}  // namespace foldcast::offload
