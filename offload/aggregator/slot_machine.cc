#include "offload/aggregator/slot_machine.h"

#include "offload/protocol/data.h"

namespace foldcast::offload {
namespace {

std::string in_words(const Signature& wire, std::uint64_t bytes) {
  return describe(wire) + ", " + std::to_string(bytes) + " bytes in this fragment";
}

}  // namespace

SlotMachine::SlotMachine(std::uint32_t window, std::uint32_t children, bool root, const GroupCaps& caps)
    : window_(window),
      children_(children),
      root_(root),
      caps_(caps),
      slots_(window),
      has_(static_cast<std::size_t>(window) * children, 0) {
  actions_.reserve(static_cast<std::size_t>(window) * (children + 2) * 2);
}

void SlotMachine::start() {
  for (std::uint32_t s = 0; s < window_; ++s) {
    slots_[s].index = s;
    for (std::uint32_t child = 0; child < children_; ++child) {
      actions_.push_back({.kind = DataAction::Kind::kReceive,
                          .buffer = SlotBuffer::kLanding,
                          .slot = s,
                          .party = static_cast<std::int32_t>(child),
                          .index = s});
    }
    if (!root_) {
      actions_.push_back(
          {.kind = DataAction::Kind::kReceive, .buffer = SlotBuffer::kResult, .slot = s, .party = kParent, .index = s});
    }
  }
}

SlotMachine::Dispute SlotMachine::on_contribution(const Contribution& contribution, std::uint64_t fragment) {
  auto& slot = slots_[contribution.slot];
  const auto& wire = contribution.wire;
  Dispute dispute{.first = contribution.child};
  dispute.first_says = malformed(wire, contribution.bytes, fragment);
  if (dispute.first_says.empty() && wire.kind == Collective::kAllReduce && !caps_.supports(wire.dtype, wire.op)) {
    dispute.first_says = describe(wire) + ", which this tree does not offer";
  }
  if (!dispute.first_says.empty()) {
    dispute.exists = true;
    return dispute;
  }
  if (slot.contributed == 0) {
    slot.first = contribution.child;
    slot.wire = wire;
    slot.bytes = static_cast<std::uint32_t>(contribution.bytes);
  } else if (slot.wire != wire || slot.bytes != contribution.bytes) {
    return {true, slot.first, contribution.child, in_words(slot.wire, slot.bytes), in_words(wire, contribution.bytes)};
  }
  has_[static_cast<std::size_t>(contribution.slot) * children_ + static_cast<std::size_t>(contribution.child)] = 1;
  if (++slot.contributed == children_ && !slot.busy()) fold(contribution.slot);
  return dispute;
}

/// Reduces a full slot and sends the sum on its way; the landing buffers are free again with that.
void SlotMachine::fold(std::uint32_t s) {
  auto& slot = slots_[s];
  slot.out_index = slot.index;
  slot.out_bytes = slot.bytes;
  slot.out_wire = slot.wire;
  ++busy_;
  actions_.push_back({.kind = DataAction::Kind::kReduce,
                      .buffer = SlotBuffer::kSum,
                      .slot = s,
                      .bytes = slot.out_bytes,
                      .index = slot.out_index,
                      .wire = slot.out_wire});
  if (root_) {
    send_down(s, SlotBuffer::kSum);
  } else {
    slot.sends = 1;
    slot.awaits_result = true;
    actions_.push_back({.kind = DataAction::Kind::kSend,
                        .buffer = SlotBuffer::kSum,
                        .slot = s,
                        .party = kParent,
                        .bytes = slot.out_bytes,
                        .index = slot.out_index,
                        .wire = slot.out_wire});
  }
  slot.index += window_;
  slot.contributed = 0;
  for (std::uint32_t child = 0; child < children_; ++child) {
    has_[static_cast<std::size_t>(s) * children_ + child] = 0;
    actions_.push_back({.kind = DataAction::Kind::kReceive,
                        .buffer = SlotBuffer::kLanding,
                        .slot = s,
                        .party = static_cast<std::int32_t>(child),
                        .index = slot.index});
  }
}

void SlotMachine::send_down(std::uint32_t s, SlotBuffer buffer) {
  auto& slot = slots_[s];
  slot.sends += children_;
  for (std::uint32_t child = 0; child < children_; ++child) {
    actions_.push_back({.kind = DataAction::Kind::kSend,
                        .buffer = buffer,
                        .slot = s,
                        .party = static_cast<std::int32_t>(child),
                        .bytes = slot.out_bytes,
                        .index = slot.out_index,
                        .wire = slot.out_wire});
  }
}

SlotMachine::Dispute SlotMachine::on_result(std::uint32_t s, std::uint64_t bytes, const Signature& wire) {
  auto& slot = slots_[s];
  if (!slot.awaits_result) {
    return {true, kParent, kParent, "a result of fragment " + std::to_string(s) + " that nobody contributed to", {}};
  }
  if (wire != slot.out_wire || bytes != slot.out_bytes) {
    return {
        true,
        kParent,
        kParent,
        "a result of " + in_words(wire, bytes) + " for a contribution of " + in_words(slot.out_wire, slot.out_bytes),
        {}};
  }
  slot.awaits_result = false;
  send_down(s, SlotBuffer::kResult);
  return {};
}

void SlotMachine::on_sent(std::uint32_t s) {
  --slots_[s].sends;
  settle(s);
}

void SlotMachine::settle(std::uint32_t s) {
  auto& slot = slots_[s];
  if (slot.busy()) return;
  --busy_;
  if (!root_) {
    actions_.push_back({.kind = DataAction::Kind::kReceive,
                        .buffer = SlotBuffer::kResult,
                        .slot = s,
                        .party = kParent,
                        .index = slot.out_index + window_});
  }
  if (slot.contributed == children_) fold(s);
}

bool SlotMachine::waits_for(std::int32_t child) const {
  for (std::uint32_t s = 0; s < window_; ++s) {
    const bool has = has_[static_cast<std::size_t>(s) * children_ + static_cast<std::size_t>(child)] != 0;
    if (slots_[s].contributed > 0 && !has) return true;
  }
  return false;
}

}  // namespace foldcast::offload
