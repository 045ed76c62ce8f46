#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/engine.h"
#include "core/runtime/binding.h"
#include "core/runtime/placement.h"
#include "core/select/plan.h"

namespace foldcast::runtime {

/// What of a communicator a plan's steps refer to. Lives as long as anything runs on it.
struct Endpoints {
  std::int32_t rank = 0;  ///< our own
  std::uint32_t communicator = 0;
  std::vector<std::int32_t> world_ranks;  ///< rank -> rank of the job
  std::vector<Engine*> routes;            ///< rank -> the transport that leads there; null where none is needed
  std::vector<std::int32_t> peers;        ///< rank -> that transport's peer number
  std::vector<std::string> names;         ///< rank -> "rank 3 (node3)", for errors
  std::vector<Engine*> groups;            ///< the plan's groups; null where this rank is no member
  std::vector<std::string> group_names;   ///< "node 0", "tree 0 (rack0 -> spine)"
};

/// One call under way. Owned by the executor; see Executor::launch.
class Execution {
 public:
  bool finished() const { return finished_; }
  const Status& status() const { return status_; }
  std::uint64_t sequence() const { return binding_.sequence; }
  const Endpoints& endpoints() const { return *endpoints_; }
  const Signature& signature() const { return binding_.signature; }

 private:
  friend class Executor;
  struct Fragment {
    std::uint32_t index = 0;
    Placement place;
    std::uint32_t left = 0;  ///< steps not done
    std::byte* scratch = nullptr;
    std::byte* wire = nullptr;           ///< messages in the wire format
    std::vector<std::uint32_t> pending;  ///< per step: dependences not done
    std::vector<bool> posted;            ///< per step: an engine has it
  };

  const Endpoints* endpoints_ = nullptr;
  const select::Plan* plan_ = nullptr;
  Binding binding_;
  Status status_;
  std::uint32_t slot_ = 0;  ///< in the executor's table, and in cookies
  std::uint64_t fragments_ = 0, next_fragment_ = 0, fragments_done_ = 0;
  std::vector<Fragment> in_flight_;
  struct LaneTurns {
    void* lane = nullptr;  ///< an Executor::Lane
    std::uint64_t first = 0;
  };
  std::vector<LaneTurns> turns_;  ///< per use of a group lane, see Executor
  std::vector<std::byte> scratch_;
  std::vector<std::uint64_t> wire_offsets_;  ///< per step: where its message is in Fragment::wire
  std::uint32_t outstanding_ = 0;            ///< posted to engines, not completed
  bool finished_ = true;
};

/// Runs plans: issues the steps that are ready, polls the engines, and lets completions release what waits for them.
/// The one loop for everything that moves or reduces bytes. One owner thread.
///
/// Group engines want the same order of calls on all members. So each step on a group's lane gets a turn when its call
/// is launched: calls in launch order, fragments in order, steps in order; and waits until it is its turn. All members
/// run the same plans in the same sequence, so their turns agree.
class Executor {
 public:
  Executor();
  /// Everything that endpoints refer to must be added before and removed after; polled in this order.
  void add_engine(Engine* engine);
  void remove_engine(Engine* engine);

  /// Whether some engine has that descriptor.
  bool sleeps_on(int descriptor) const;

  /// Starts a call. The execution is the caller's until release(); its buffers must live until it is finished.
  /// kAborted when an earlier error broke the communicator.
  Result<Execution*> launch(const Endpoints& endpoints, const select::Plan& plan, const Binding& binding);
  void release(Execution* execution);

  /// One pass over the engines that are awake and have something to do; true when anything moved. An engine falls
  /// asleep when it is armed and is awake again once something is posted to it or wake() names it. One that has nothing
  /// to do is looked at now and then only, since looking may cost a system call.
  bool progress();
  /// The engine whose descriptor is readable; every engine.
  void wake(int descriptor);
  void wake_all();
  /// The next pass looks at every engine, busy or not.
  void look_at_all();
  /// Arms every engine that is awake; false when one has news. See Engine.
  bool arm();
  /// Grows whenever anything moves. Telling the time at every step would cost more than the step.
  std::uint64_t moves() const { return moves_; }

  /// Ends all calls of a communicator with `status`; later launches are refused. Its buffers are free once the
  /// executions are finished, which needs progress(). Said again, `status` replaces the reason that later calls hear.
  void fail(std::uint32_t communicator, const Status& status);
  /// Of a communicator that is no more.
  void forget(std::uint32_t communicator) { broken_.erase(communicator); }
  /// What has not finished yet. `visit` may call fail().
  void for_each_unfinished(const std::function<void(const Execution&)>& visit) const;
  /// The error that broke a communicator, or success.
  Status health(std::uint32_t communicator) const;
  /// What an unfinished execution waits for, for a person: "recv from rank 3 (node3), fragment 2".
  std::string waiting_for(const Execution& execution) const;

 private:
  struct StepRef {
    Execution* execution;
    std::uint32_t fragment;  ///< in in_flight_
    std::uint32_t step;
  };
  struct Lane {
    std::uint64_t allocated = 0, next = 0;     ///< turns
    std::map<std::uint64_t, StepRef> waiting;  ///< ready, not yet their turn
  };

  void start_fragment(Execution& execution, std::uint32_t slot);
  void drain_ready();
  /// False: the engine's queue is full, try again.
  bool issue(const StepRef& ref);
  bool issue_group(const StepRef& ref);
  Posted post(Engine* engine, const StepRef& ref);
  void finish_step(const StepRef& ref);
  void finish_fragment(Execution& execution, std::uint32_t slot);
  void complete(const Completion& completion);
  EngineCall call_of(const StepRef& ref) const;
  EngineCall message_of(const StepRef& ref) const;
  EngineCall group_call_of(const StepRef& ref) const;
  /// What a finished receive still needs: its size checked, its wire format undone.
  Status take_message(const StepRef& ref, const Completion& completion) const;
  void allocate(Execution& execution);
  std::string describe(const StepRef& ref) const;
  Lane& lane_of(const Execution& execution, std::uint32_t group, std::uint8_t lane);

  struct Polled {
    Engine* engine;
    bool awake;                     ///< not armed
    std::uint32_t outstanding = 0;  ///< posted to it, not completed
    bool rung = false;              ///< its descriptor was readable
  };
  std::vector<Polled> engines_;
  std::uint32_t passes_ = 0;
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<Execution*> idle_;
  std::map<std::pair<Engine*, std::uint8_t>, Lane> lanes_;
  std::map<std::uint32_t, Status> broken_;
  std::vector<StepRef> ready_;
  std::deque<StepRef> retry_;
  std::vector<Completion> completions_;
  std::uint64_t moves_ = 0;
};

}  // namespace foldcast::runtime
