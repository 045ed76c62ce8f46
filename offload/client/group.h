#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "offload/client/client_machine.h"
#include "offload/client/data_plane.h"
#include "offload/client/lease_keeper.h"
#include "offload/protocol/data.h"
#include "offload/provider.h"

namespace foldcast::offload {

/// What a group needs of its join.
struct GroupSetup {
  std::shared_ptr<DataPlane> plane;
  std::shared_ptr<LeaseKeeper> keeper;
  std::shared_ptr<Fate> fate;
  std::unique_ptr<bootstrap::Channel> channel;
  std::optional<Membership> membership;
  Lane lane;
  std::string aggregator;  ///< what errors call it
  std::string path;        ///< "rack0 -> spine"
  std::chrono::milliseconds fragment_timeout{5000};
};

/// A member's group on a tree of aggregators: ClientMachine on a transport, sleeping on one epoll descriptor over the
/// transport's, a bell that other threads and groups ring, and a timer for the oldest fragment's deadline.
class AggregatorGroup final : public OffloadGroup, private DataPlane::Port {
 public:
  static Result<std::unique_ptr<AggregatorGroup>> create(GroupSetup setup);
  ~AggregatorGroup() override;

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return epoll_.get(); }
  bool arm() override;
  void cancel(std::uint32_t communicator) override;
  GroupCaps caps() const override { return caps_; }
  std::string describe() const override;

 private:
  using Clock = std::chrono::steady_clock;

  AggregatorGroup(GroupSetup setup, std::int32_t peer);
  Status open_descriptors();
  void on_completion(std::uint32_t tag, Completion& completion, Clock::time_point now) override;
  void on_batch_end(bool polling) override;
  void perform();
  Posted perform_one(const ClientAction& action);
  void check_time(Clock::time_point now);
  void set_timer(Clock::time_point at);
  void end(const Status& why);
  Clock::time_point next_time() const;

  const std::shared_ptr<DataPlane> plane_;
  const std::shared_ptr<LeaseKeeper> keeper_;
  const std::shared_ptr<Fate> fate_;
  const Lane lane_;
  const std::string aggregator_, path_;
  const std::int32_t peer_;
  GroupCaps caps_;
  ClientMachine machine_;
  std::vector<ClientAction> retry_;  ///< what the transport had no room for, in order
  std::uint32_t port_ = 0;
  std::uint64_t ticket_ = 0;
  Status suspicion_;  ///< the data path broke; see kHearsay
  Clock::time_point suspicion_until_ = Clock::time_point::max();
  Clock::time_point timer_at_ = Clock::time_point::max();
  bool armed_ = false;
  bool rung_ = false;  ///< the bell needs hushing
  bool seal_heard_ = false;
  UniqueFd epoll_, timer_;
};

}  // namespace foldcast::offload
