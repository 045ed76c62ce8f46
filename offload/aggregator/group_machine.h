#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/aggregator/slot_machine.h"
#include "offload/protocol/control.h"
#include "offload/protocol/membership.h"

namespace foldcast::offload {

using Time = std::chrono::steady_clock::time_point;

/// What an aggregator brings into every group.
struct AggregatorTraits {
  std::uint32_t window = 16;
  std::uint32_t fragment = 64 * 1024;
  std::chrono::milliseconds lease{5000};
  GroupCaps caps;
};

/// What a group wants done on its control side. A link is one control connection; the machine knows it as its child's
/// number, or kParent.
struct ControlAction {
  enum class Kind : std::uint8_t {
    kConnect,  ///< to the parent's control address, then send `frame` on it
    kSend,     ///< `frame` to `party`
    kStart,    ///< allocate, connect all data addresses, then report started()
    kEnd,      ///< the last action: free everything
  };
  Kind kind = Kind::kSend;
  std::int32_t party = kParent;
  ControlFrame frame;
};

/// One group on one aggregator: forming, active, ended. Does no I/O and reads no clock: events and times go in, actions
/// come out through take_control() and slots(). Whoever runs it performs them in order.
///
/// Forming: children join one by one; when all are here the aggregator joins its own parent, or grants if it is the
/// root. Active: see SlotMachine. Any loss or disagreement ends the group for everyone, with one reason. A child that
/// leaves in good order does not end the group before somebody needs it again.
class GroupMachine {
 public:
  /// `join` is the first one to arrive for the group; it is still to be given to on_join().
  /// `address` is what this aggregator's transport for the job is called.
  GroupMachine(const Join& join, AggregatorTraits traits, std::string address, Time now);

  /// The child's number, or why it is refused (the group may have ended with it: see ended()).
  Result<std::int32_t> on_join(const Join& join, Time now);
  void on_frame(std::int32_t party, const ControlFrame& frame, Time now);
  /// The control connection to `party` is gone, or could not be made.
  void on_link_lost(std::int32_t party, const Status& why);
  /// Memory and peers are there: the answer to kStart. Slots run from now on.
  void started(Time now);
  /// The data path failed; the control side is given a moment to say why.
  void on_data_lost(std::int32_t party, const Status& why, Time now);
  void on_time(Time now);
  void on_contribution(std::int32_t child, std::uint32_t slot, std::uint64_t bytes, const Signature& wire);
  void on_result(std::uint32_t slot, std::uint64_t bytes, const Signature& wire);
  void on_sent(std::uint32_t slot);
  void fail(const Status& why);
  /// As fail(), but by order of whoever runs the aggregator.
  void farewell(const std::string& reason);

  /// When on_time() wants to be called next.
  Time next_time() const;
  /// Moves the pending actions out.
  std::vector<ControlAction> take_control();
  bool has_control() const { return !control_.empty(); }
  SlotMachine& slots() { return slots_; }

  bool active() const { return state_ == State::kActive; }
  bool ended() const { return state_ == State::kEnded; }
  const Status& failure() const { return failure_; }
  std::size_t children() const { return children_.size(); }
  bool root() const { return tree_.vertices[vertex_].parent < 0; }
  std::uint32_t window() const { return window_; }
  std::uint32_t fragment() const { return fragment_; }
  std::uint64_t buffers_per_slot() const { return slot_buffers(children_.size(), root()); }
  std::uint64_t memory() const { return group_memory(window_, fragment_, buffers_per_slot()); }
  std::uint32_t incarnation() const { return incarnation_; }
  std::uint32_t group() const { return group_; }
  const std::string& parent_control() const { return tree_.vertices[tree_.vertices[vertex_].parent].control; }
  const std::string& parent_address() const { return parent_->grant()->address; }
  const std::string& child_address(std::int32_t child) const { return children_[child].address; }
  std::string party_name(std::int32_t party) const;

 private:
  enum class State : std::uint8_t { kForming, kStarting, kActive, kEnded };
  struct Child {
    ChildKind kind = ChildKind::kMember;
    std::int32_t index = 0;
    std::string address{};
    bool joined = false;
    bool left = false;
    Time heard{};
  };
  struct Suspect {
    std::int32_t party = kParent;
    Status why;
    Time until;
  };

  std::int32_t child_number(ChildKind kind, std::int32_t index) const;
  Status check_same(const Join& join) const;
  void all_joined(Time now);
  void on_parent_frame(const ControlFrame& frame, Time now);
  void child_left(std::int32_t child, Time now);
  void check_slots();
  bool all_left() const { return ends_by_ != Time::max(); }
  void end(const Status& why, const ControlFrame& last_word);
  void send(std::int32_t party, ControlFrame frame);
  std::string missing() const;

  const AggregatorTraits traits_;
  const std::string address_;
  const std::uint32_t group_, incarnation_;
  const std::uint64_t job_token_;
  const std::string job_;
  const Tree tree_;
  const std::int32_t vertex_;
  State state_ = State::kForming;
  Status failure_;
  std::vector<Child> children_;  ///< members first, then aggregators: the order of reduction
  std::uint32_t window_, fragment_;
  GroupCaps caps_;
  Time forming_until_;
  std::uint32_t timeout_ms_;
  std::optional<Membership> parent_;  ///< from our own join on
  Time ends_by_ = Time::max();        ///< once all children have left, and we our parent
  std::optional<Suspect> suspect_;
  std::vector<ControlAction> control_;
  SlotMachine slots_;
};

}  // namespace foldcast::offload
