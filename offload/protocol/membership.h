#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "offload/protocol/control.h"

namespace foldcast::offload {

/// The control side of one child of an aggregator, be it a member or another aggregator: it has joined, waits for the
/// grant, then renews its lease until it leaves or the group ends. Does no I/O and reads no clock.
class Membership {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// `aggregator` is what errors call the other side: "aggregator rack0 (10.0.0.1:7000)".
  Membership(std::uint32_t group, std::string aggregator, Time now);

  void on_frame(const ControlFrame& frame, Time now);
  void on_link_lost(const Status& why);
  /// What to send now, if anything: a renewal. Also notices an aggregator that does not answer.
  std::optional<ControlFrame> on_time(Time now);
  /// When on_time() wants to be called next.
  Time next_time() const;

  const std::optional<Grant>& grant() const { return grant_; }
  bool ended() const { return !failure_.ok(); }
  const Status& failure() const { return failure_; }

 private:
  std::uint32_t group_;
  std::string aggregator_;
  std::optional<Grant> grant_;
  Status failure_;
  Time heard_, renew_at_ = Time::max();
};

}  // namespace foldcast::offload
