#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/engine.h"
#include "core/runtime/binding.h"
#include "core/runtime/endpoints.h"
#include "core/runtime/placement.h"
#include "core/schedule/step.h"

namespace foldcast::runtime {

/// An engine as the executor polls it.
struct PolledEngine {
  Engine* engine = nullptr;
  bool awake = true;              ///< not armed
  bool rung = false;              ///< its descriptor was readable
  std::uint32_t outstanding = 0;  ///< posted to it, not completed
};

class Execution;

/// A step of a fragment under way. It is bound when it is first issued: given its engine, addresses and numbers, all
/// that issuing it needs but the call's number.
struct RunningStep {
  Execution* execution = nullptr;
  std::uint32_t fragment = 0;  ///< which of the execution's fragments in flight
  std::uint32_t index = 0;     ///< in the schedule
  std::uint32_t pending = 0;   ///< dependences not done
  schedule::StepKind kind = schedule::StepKind::kCopy;
  bool posted = false;  ///< the engine has it
  bool bound = false;

  PolledEngine* engine = nullptr;  ///< send, recv, group
  EngineCall call;                 ///< send, recv, group
  /// reduce, copy: what is done. Of a message that is rounded, `target` is where its values are; the call has the
  /// rounded ones.
  std::byte* target = nullptr;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::uint64_t elements = 0;
};

/// Where a fragment of a call is.
struct Whereabouts {
  const Endpoints& endpoints;
  const Binding& binding;
  const Placement& place;
  std::byte* scratch;
  std::byte* wire;  ///< where the step's message is in its wire format
};

/// Binds `running` as `step` of a plan, but for its engine and the numbers of call and fragment.
void bind_step(const schedule::Step& step, const Whereabouts& where, RunningStep& running);

}  // namespace foldcast::runtime
