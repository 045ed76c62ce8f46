#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/bootstrap/launcher.h"
#include "core/bootstrap/store.h"
#include "core/runtime/executor.h"
#include "core/runtime/gate.h"
#include "core/runtime/progress.h"
#include "hierarchy/topology.h"
#include "transports/striped/striped.h"
#include "transports/transport.h"

namespace foldcast::runtime {

/// One process's part in a job: the control plane, who is where, the connections and the loop that drives them. Under
/// all communicators of the process. Whoever calls it holds the gate, but for create() and the destructor.
class Context {
 public:
  /// Collective over the job: meets the other ranks at the store, exchanges identities and addresses, connects.
  static Result<std::unique_ptr<Context>> create(Config config, const bootstrap::LaunchInfo& launch,
                                                 const transports::TransportFactories& transports);
  ~Context();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(layout_.size()); }
  const Config& config() const { return config_; }
  const hierarchy::Layout& layout() const { return layout_; }
  bootstrap::Store& store() { return *store_; }
  Executor& executor() { return *executor_; }
  Progress& progress() { return *progress_; }
  Gate& gate() { return gate_; }
  /// Per rank: the transport that leads there (null in a job of one rank), and its number for the peer.
  const std::vector<Engine*>& routes() const { return routes_; }
  const std::vector<std::int32_t>& peers() const { return peers_; }
  /// Whether the ranks of a node may read each other's memory. Who reads keeps the owner waiting, which costs two
  /// changes of process where ranks share cores.
  bool cross_memory() const {
    return config_.cross_memory == "on" || (config_.cross_memory == "auto" && !layout_.oversubscribed);
  }
  /// What stripes messages between nodes; null where there is one rail, or UCX's choice.
  transports::StripedTransport* rails() { return rails_; }
  /// "rank 3 (node3)".
  const std::vector<std::string>& names() const { return names_; }
  /// The job's secret: rank 0 drew it, nobody outside the job's control plane has it.
  std::uint64_t job_token() const { return job_token_; }
  /// Drawn by rank 0 for naming things of this job: the same on all ranks.
  const std::string& job_id() const { return job_id_; }

  /// Agreement over all ranks, by the end of the set-up. `name` is used once per context. The gate is free.
  Result<std::vector<std::string>> gather(const std::string& name, std::string_view value);

  /// All of the set-up, a communicator's included, ends by then.
  Deadline setup_deadline() const { return setup_deadline_; }
  std::chrono::milliseconds setup_time_left() const;

  /// A number for a communicator: at least `least`, and used for none of this process's before. Ranks agree on the
  /// largest of theirs.
  std::uint32_t next_communicator() const { return next_communicator_; }
  /// `first`: the lowest of its ranks in the job, which with `number` names it in the job.
  void enter_communicator(std::uint32_t number, std::int32_t first);
  void leave_communicator(std::uint32_t number);
  /// Breaks a communicator here, and tells its other ranks.
  void abort(std::uint32_t number);
  /// Tells all other ranks; those that listen to the topic hear it when they make progress. Does not wait.
  void tell(std::uint32_t topic, std::uint64_t value);
  void listen(std::uint32_t topic, std::function<void(std::uint64_t)> listener);
  void stop_listening(std::uint32_t topic) { listeners_.erase(topic); }

  Status add_engine(Engine& engine);
  void remove_engine(Engine& engine);

 private:
  explicit Context(Config config)
      : config_(std::move(config)), setup_deadline_(Deadline::after(config_.setup_timeout)) {}
  Status meet(const bootstrap::LaunchInfo& launch);
  Status agree_on_settings();
  Status connect(const transports::TransportFactories& transports);
  Result<std::unique_ptr<transports::Transport>> make_network(const transports::TransportFactories& transports);
  Status connect_over(const transports::TransportFactory& make, const std::string& name, bool within_node,
                      std::unique_ptr<transports::Transport>& transport);
  void on_notice(const std::string& text);
  void on_abort(std::uint32_t number, std::int32_t first, std::int32_t by);
  ProgressOptions progress_options() const;

  Config config_;
  Deadline setup_deadline_;
  int rank_ = 0;
  std::unique_ptr<bootstrap::Store> store_;
  hierarchy::Layout layout_;
  std::vector<std::string> names_;
  std::uint64_t job_token_ = 0;
  std::string job_id_;
  Gate gate_;
  std::uint32_t next_communicator_ = 1;
  std::map<std::uint32_t, std::int32_t> communicators_;                    ///< number to first rank
  std::map<std::uint32_t, std::function<void(std::uint64_t)>> listeners_;  ///< by topic
  std::unique_ptr<transports::Transport> network_;
  transports::StripedTransport* rails_ = nullptr;  ///< network_, if it is one
  std::unique_ptr<transports::Transport> within_node_;
  std::vector<Engine*> routes_;
  std::vector<std::int32_t> peers_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace foldcast::runtime
