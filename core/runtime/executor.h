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
#include "core/runtime/endpoints.h"
#include "core/runtime/placement.h"
#include "core/runtime/running_step.h"
#include "core/select/plan.h"

namespace foldcast::runtime {

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
    std::uint32_t left = 0;  ///< steps not done
    Placement place;
    std::byte* scratch = nullptr;
    std::byte* wire = nullptr;  ///< messages in the wire format
    std::vector<RunningStep> steps;
  };

  const Endpoints* endpoints_ = nullptr;
  const select::Plan* plan_ = nullptr;
  Binding binding_;
  Status status_;
  /// Of the executor when the steps were bound: what they point to is still there.
  std::uint64_t generation_ = 0;
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
  PolledEngine* waiter_ = nullptr;           ///< rung when it has finished
  bool finished_ = true;
};

/// Runs plans: issues the steps that are ready, polls the engines, and lets completions release what waits for them.
/// The one loop for everything that moves or reduces bytes. One owner thread.
///
/// Group engines want the same order of calls on all members. So each step on a group's lane gets a turn when its call
/// is launched: calls in launch order, fragments in order, steps in order; and waits until it is its turn. All members
/// run the same plans in the same sequence, so their turns agree.
///
/// A step is bound (addresses, counts, engine) when it is first issued. Applications call with the same buffers again
/// and again: such a call finds its steps bound.
class Executor {
 public:
  Executor();
  /// Everything that endpoints refer to must be added before and removed after; polled in this order.
  void add_engine(Engine* engine);
  void remove_engine(Engine* engine);

  /// Whether some engine has that descriptor.
  bool sleeps_on(int descriptor) const;

  /// Starts a call. The execution is the caller's until release(); its buffers must live until it is finished.
  /// kAborted when an earlier error broke the communicator. `waiter`, an engine of this executor, is polled once it
  /// has finished: an engine may run a part of its work as calls of its own.
  Result<Execution*> launch(const Endpoints& endpoints, const select::Plan& plan, const Binding& binding,
                            Engine* waiter = nullptr);
  void release(Execution* execution);

  /// One pass over the engines that are awake and have something to do; true when anything moved. An engine falls
  /// asleep when it is armed and is awake again once something is posted to it or wake() names it. One that has nothing
  /// to do is looked at now and then only, since looking may cost a system call.
  bool progress();
  /// The engine whose descriptor is readable; every engine.
  void wake(int descriptor);
  void wake_all();
  /// The engine has something to do that its descriptor does not show.
  void ring(const Engine& engine);
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
  void forget(std::uint32_t communicator);
  /// What has not finished yet. `visit` may call fail().
  void for_each_unfinished(const std::function<void(const Execution&)>& visit) const;
  /// The error that broke a communicator, or success.
  Status health(std::uint32_t communicator) const;
  /// What an unfinished execution waits for, for a person: "recv from rank 3 (node3), fragment 2".
  std::string waiting_for(const Execution& execution) const;

 private:
  struct Lane {
    std::uint64_t allocated = 0, next = 0;          ///< turns
    std::map<std::uint64_t, RunningStep*> waiting;  ///< ready, not yet their turn
  };
  /// An idle execution: the one that ran this very call before, or any.
  Result<Execution*> take_idle(const Endpoints& endpoints, const select::Plan& plan, const Binding& binding,
                               bool& again);
  void start_fragment(Execution& execution, std::uint32_t slot, bool again);
  void drain_ready();
  /// False: the engine's queue is full, try again.
  bool issue(RunningStep& step);
  bool issue_group(RunningStep& step);
  bool post(RunningStep& step);
  void encode(const RunningStep& step) const;
  void bind(RunningStep& step);
  void finish_step(RunningStep& step);
  void finish_fragment(Execution& execution, std::uint32_t slot);
  static void finish(Execution& execution);
  PolledEngine* find(const Engine* engine) const;
  void complete(const Completion& completion);
  /// What a finished receive still needs: its size checked, its wire format undone.
  Status take_message(const RunningStep& step, const Completion& completion) const;
  void allocate(Execution& execution);
  std::string describe(const RunningStep& step) const;
  Lane& lane_of(const Execution& execution, std::uint32_t group, std::uint8_t lane);

  std::vector<std::unique_ptr<PolledEngine>> engines_;
  std::uint32_t passes_ = 0;
  std::uint64_t generation_ = 1;  ///< of engines and communicators
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<Execution*> idle_;
  std::map<std::pair<Engine*, std::uint8_t>, Lane> lanes_;
  std::map<std::uint32_t, Status> broken_;
  std::vector<RunningStep*> ready_;
  std::deque<RunningStep*> retry_;
  std::vector<Completion> completions_;
  std::uint64_t moves_ = 0;
};

}  // namespace foldcast::runtime
