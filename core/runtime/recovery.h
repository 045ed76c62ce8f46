#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"
#include "core/runtime/executor.h"
#include "offload/provider.h"
#include "transports/completion_queue.h"

namespace foldcast::runtime {

/// What a group that survives its tree needs besides the tree.
struct RecoverySetup {
  /// The members alone, in the order of their numbers in the tree. `communicator` is a number of the group's own.
  Endpoints endpoints;
  /// The same on all members: how calls are cut, and how many pieces are under way.
  GroupCaps caps;
  /// Microseconds that an all_reduce algorithm takes between the members; the same on all.
  std::function<double(std::string_view algorithm, std::uint64_t bytes)> price;
  /// Lets all other members hear() the value.
  std::function<void(std::uint64_t)> tell;
  /// Joins the tree anew. `attempt` counts from 1, the same on all members, who all do. Blocks; on a thread of its own.
  std::function<Result<std::unique_ptr<offload::OffloadGroup>>(std::uint32_t attempt)> join;
  std::string name;                         ///< "tree 0", for logs
  std::chrono::milliseconds patience{500};  ///< before the first attempt to return; doubles up to eight times that
};

/// An OffloadGroup whose calls do not fail with their tree: when it is lost they go on among the members, and so do
/// later calls, until the tree is to be had again.
///
/// Calls are cut into fragments, numbered through, which come back from the tree in order into a ring of slots and are
/// copied out from there. So each member has the results of all fragments below some number, and its input, untouched
/// even in place, of all from there on; and since fragment f + W goes up only when its member has f, what one member
/// has and another lacks is still in the ring of the one (W slots). Losing the tree is then:
///
///   1. tell     whoever notices tells all members, who drop the tree;
///   2. agree    on the highest number, H, below which some member has all results;
///   3. patch    that member sends those it has to those that lack them;
///   4. go on    from fragment H, which all still have inputs for, over the host path.
///
/// On the host path each call comes with a word on whether its member has joined the tree again; once all have, the
/// next call takes it. Member 0 says when to try, at growing distances.
///
/// A dead member cannot be recovered from: the calls end with kPeerFailed. What members called differently ends as ever
/// with kMismatch. One that has returned from a call is needed to patch it for others, so it helps when it next makes
/// progress. One thread, but for the join.
class RecoveringGroup final : public offload::OffloadGroup {
 public:
  struct Counters {
    std::uint64_t losses = 0;         ///< of the tree
    std::uint64_t returns = 0;        ///< to it
    std::uint64_t attempts = 0;       ///< to return
    std::uint64_t host_calls = 0;     ///< that went, from some fragment on, over the host path
    std::uint64_t patched_bytes = 0;  ///< results that came from another member
  };

  static Result<std::unique_ptr<RecoveringGroup>> create(Executor& executor, RecoverySetup setup,
                                                         std::unique_ptr<offload::OffloadGroup> tree);
  ~RecoveringGroup() override;

  Posted post(const EngineCall& call, std::uint64_t cookie) override;
  std::size_t poll(std::span<Completion> out) override;
  int descriptor() const override { return epoll_.get(); }
  bool arm() override;
  void cancel(std::uint32_t communicator) override;
  GroupCaps caps() const override { return setup_.caps; }
  std::string describe() const override { return state_ == State::kTree ? tree_->describe() : news(); }

  /// Ends what is under way: before the executor loses this engine.
  void close();
  const std::string& name() const { return setup_.name; }
  /// Where it is not, or not any more, as it was made: what has become of it. For a person.
  std::string news() const;
  /// What another member told.
  void hear(std::uint64_t value);
  bool on_tree() const { return state_ == State::kTree; }
  const Counters& counters() const { return counters_; }

 private:
  enum class State : std::uint8_t { kTree, kAgreeing, kPatching, kHost, kDead };
  using Clock = std::chrono::steady_clock;

  struct Call {
    EngineCall call;
    std::uint64_t cookie = 0;
    std::uint64_t bytes = 0;
    std::uint64_t first = 0;      ///< its first fragment
    std::uint64_t fragments = 1;  ///< of no bytes one, too
  };
  /// A part of a call's bytes.
  struct Range {
    std::uint64_t offset = 0, bytes = 0;
  };

  RecoveringGroup(Executor& executor, RecoverySetup setup) : executor_(executor), setup_(std::move(setup)) {}

  Status take(std::unique_ptr<offload::OffloadGroup> tree);
  void drop_tree();
  void feed_tree();
  void poll_tree();
  void on_fragment(Completion& completion);
  void lose(const Status& why);
  void agree();
  void patch();
  void resume();
  void run_on_host();
  void start_on_host(Call& call);
  void try_to_return();
  void start_join(std::uint32_t attempt);
  void advance();
  void die(const Status& why);

  Range range_of(const Call& call, std::uint64_t fragment) const;
  std::byte* slot(std::uint64_t fragment) { return slots_.data() + fragment % setup_.caps.slots * fragment_bytes_; }
  void complete_received();
  std::uint32_t self() const { return static_cast<std::uint32_t>(setup_.endpoints.rank); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(setup_.endpoints.names.size()); }
  const select::Plan& plan_for(std::uint64_t bytes);
  const select::Plan& message_to_or_from(std::int32_t peer, bool sends);
  void launch(const select::Plan& plan, const Binding& binding);
  /// Whether all that was launched has ended; then it is released. Dead when some of it failed.
  bool ended();

  Executor& executor_;
  const RecoverySetup setup_;
  State state_ = State::kTree;
  Status dead_;
  std::unique_ptr<offload::OffloadGroup> tree_;
  UniqueFd epoll_;
  std::uint64_t fragment_bytes_ = 0;
  std::vector<std::byte> slots_;
  std::vector<std::uint64_t> slot_bytes_;  ///< of the result in each
  std::deque<Call> calls_;                 ///< not complete, oldest first
  std::uint64_t next_fragment_ = 0;        ///< of the next call
  std::uint64_t fed_ = 0;                  ///< fragments below this were given to the tree
  std::size_t fed_call_ = 0;               ///< the call that fragment is of, in calls_
  std::uint64_t received_ = 0;             ///< of fragments below this the results are here
  transports::CompletionQueue completions_;
  std::vector<Completion> batch_;

  std::uint32_t epoch_ = 1;        ///< how many trees there have been
  std::uint32_t heard_epoch_ = 0;  ///< the latest tree that another member has lost
  std::string lost_because_;
  bool unpolled_ = false;  ///< something is to be done that poll() does
  std::vector<Execution*> running_;
  std::vector<std::uint64_t> standing_;  ///< per member: how far it is, plus one
  bool on_host_ = false;                 ///< calls_.front() is under way
  std::uint64_t offered_ = 0;            ///< the attempt with which this member has joined, as that call says
  std::array<std::uint64_t, 2> joined_;  ///< the least of all members', and the complement of the greatest
  std::map<std::string_view, select::Plan> plans_;  ///< by algorithm
  std::map<std::pair<std::int32_t, bool>, select::Plan> message_plans_;

  // Coming back.
  std::uint32_t attempt_ = 0;
  std::uint32_t wanted_attempt_ = 0;  ///< what member 0 asked for
  Clock::time_point next_attempt_{};
  std::chrono::milliseconds patience_{};  ///< before the next one
  std::thread joiner_;
  std::atomic<bool> joining_{false};
  std::unique_ptr<offload::OffloadGroup> rejoined_;  ///< the joiner's until joining_ is false, as is the next
  std::string not_rejoined_because_;
  Counters counters_;
};

}  // namespace foldcast::runtime
