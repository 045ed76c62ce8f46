#include "core/runtime/running_step.h"

#include "kernels/wire_format.h"

namespace foldcast::runtime {

using schedule::Step;
using schedule::StepKind;

namespace {

void bind_message(const Step& step, const Whereabouts& where, RunningStep& running) {
  const Signature& signature = where.binding.signature;
  const bool sends = step.kind == StepKind::kSend;
  const Stretch data = where.place.find(sends ? step.a : step.target, where.scratch);
  std::byte* at = data.data;
  EngineCall& call = running.call;
  call.verb = sends ? Verb::kSend : Verb::kRecv;
  call.peer = where.endpoints.peers[static_cast<std::size_t>(step.peer)];
  call.key.tag = std::uint64_t{step.channel} << 32 | step.ordinal;
  call.bytes = data.elements * size_of(signature.dtype);
  if (signature.wire != WireFormat::kExact) {
    at = where.wire;
    call.bytes = kernels::wire_bytes(signature.wire, data.elements);
  }
  if (sends) {
    call.input = at;
  } else {
    call.output = at;
  }
  running.target = data.data;
  running.elements = data.elements;
}

void bind_group_call(const Step& step, const Whereabouts& where, RunningStep& running) {
  const Stretch source = where.place.find(step.a, where.scratch);
  const Stretch target = where.place.find(step.target, where.scratch);
  EngineCall& call = running.call;
  call.verb = step.verb;
  call.lane = step.lane;
  call.owners = step.owners;
  call.peer = step.peer;
  call.input = source.data;
  call.output = target.data;
  call.count = target.elements;
  call.key.tag = running.index;
  // Only a call that is a single step of its group has uneven blocks, see Selector.
  const BlockTable* table = where.binding.output.table;
  if (table != nullptr) call.cuts = table->offsets.data();
}

}  // namespace

void bind_step(const Step& step, const Whereabouts& where, RunningStep& running) {
  running.call = {};
  running.call.signature = where.binding.signature;
  running.call.key.communicator = where.endpoints.communicator;
  switch (step.kind) {
    case StepKind::kSend:
    case StepKind::kRecv:
      bind_message(step, where, running);
      break;
    case StepKind::kGroup:
      bind_group_call(step, where, running);
      break;
    case StepKind::kReduce:
      running.b = where.place.find(step.b, where.scratch).data;
      [[fallthrough]];
    case StepKind::kCopy: {
      const Stretch target = where.place.find(step.target, where.scratch);
      running.target = target.data;
      running.elements = target.elements;
      running.a = where.place.find(step.a, where.scratch).data;
      break;
    }
  }
}

}  // namespace foldcast::runtime
