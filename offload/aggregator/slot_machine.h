#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/base/group_caps.h"
#include "core/base/status.h"

namespace foldcast::offload {

/// Number of the party above; children count from 0.
inline constexpr std::int32_t kParent = -1;

enum class SlotBuffer : std::uint8_t {
  kLanding,  ///< one per child: its contribution
  kSum,      ///< of all children; at the root this is the result
  kResult,   ///< as it came from the parent
};

/// What a slot wants done on the data side.
struct DataAction {
  enum class Kind : std::uint8_t {
    kReceive,  ///< from `party` into `buffer` of `slot`, any signature, up to a fragment
    kReduce,   ///< all landing buffers of `slot` into its sum, in the order of the children
    kSend,     ///< `buffer` of `slot` to `party`
  };
  Kind kind = Kind::kReceive;
  SlotBuffer buffer = SlotBuffer::kLanding;
  std::uint32_t slot = 0;
  std::int32_t party = kParent;
  std::uint32_t bytes = 0;
  std::uint64_t index = 0;
  Signature wire{};
};

/// The fragments in flight of one active group: slot s carries the indices s, s + W, s + 2W ...
/// Each slot has two halves that work at the same time: one collects contributions for an index, the other sends the
/// sum of the index before it up, and the result down. The sum buffer passes between them, so a full collecting half
/// waits until the other one's sends are done. Allocates when constructed; afterwards only if more actions are pending
/// than ever before.
class SlotMachine {
 public:
  SlotMachine() = default;
  SlotMachine(std::uint32_t window, std::uint32_t children, bool root, const GroupCaps& caps);

  /// Posts all receives.
  void start();
  struct Contribution {
    std::int32_t child = 0;
    std::uint32_t slot = 0;
    std::uint64_t bytes = 0;
    Signature wire;
  };
  /// Two children that disagree, or one that asks for what was not granted.
  struct Dispute {
    bool exists = false;
    std::int32_t first = kParent, second = kParent;  ///< second: kParent when `second_says` is empty
    std::string first_says{}, second_says{};
  };
  Dispute on_contribution(const Contribution& contribution, std::uint64_t fragment);
  Dispute on_result(std::uint32_t slot, std::uint64_t bytes, const Signature& wire);
  void on_sent(std::uint32_t slot);

  /// Some child has contributed to an index that `child` has not.
  bool waits_for(std::int32_t child) const;
  /// No send is under way and no result awaited.
  bool quiet() const { return busy_ == 0; }

  /// The pending actions, in order; the caller performs all and then calls clear_actions().
  std::span<const DataAction> actions() const { return actions_; }
  void clear_actions() { actions_.clear(); }

 private:
  struct Slot {
    std::uint64_t index = 0;        ///< being collected
    std::uint32_t contributed = 0;  ///< how many children
    std::int32_t first = 0;         ///< who set the standard
    std::uint32_t bytes = 0;
    Signature wire;
    std::uint64_t out_index = 0;  ///< on its way up and down
    std::uint32_t out_bytes = 0;
    std::uint32_t sends = 0;
    bool awaits_result = false;
    Signature out_wire;
    bool busy() const { return sends > 0 || awaits_result; }
  };

  void fold(std::uint32_t slot);
  void settle(std::uint32_t slot);
  void send_down(std::uint32_t slot, SlotBuffer buffer);

  std::uint32_t window_ = 0, children_ = 0;
  bool root_ = true;
  GroupCaps caps_;
  std::vector<Slot> slots_;
  std::vector<char> has_;  ///< slot x child: has contributed to the slot's index
  std::uint32_t busy_ = 0;
  std::vector<DataAction> actions_;
};

}  // namespace foldcast::offload
