#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/select/estimate.h"

namespace foldcast::select {

/// Runs one all-reduce of `bytes` with a given composition and gives its time in microseconds: the most over all ranks,
/// the same number on all of them. Supplied by who can run plans; blocking.
using TimedCall = std::function<Result<double>(const hierarchy::Composition& composition, std::uint64_t bytes)>;

/// What configuration says of the links; 0: to be measured.
struct KnownLinks {
  double latency_us = 0;
  double bytes_per_us = 0;  ///< of all rails together, which are then taken to be equal
};

/// The rails that messages are striped over, supplied by who can tell them their speeds: bytes per microsecond of each
/// (0: not used), and what a message costs in microseconds.
struct Rails {
  std::size_t count = 1;
  std::function<void(std::span<const double> speeds, double message_us)> use;
};

/// Measures the link model with real calls: small ones for latency, ones that take some 60 ms for bandwidth, over the
/// host path and, where `model.tree` says so, through the tree. Numbers that are already set in `known` (> 0, by
/// configuration) are kept. Every rank makes the same calls, since each decision depends on agreed times only.
///
/// Inside nodes with several ranks the same is done with their groups' calls. Of several rails each is measured alone,
/// then all at once with what each can carry.
///
/// Takes under two seconds on any link of 100 Mbit/s and up, and another for each rail beyond the first.
Result<LinkModel> calibrate(const hierarchy::Layout& layout, LinkModel model, const KnownLinks& known,
                            const TimedCall& timed_call, const Rails& rails = {});

/// Whether `model` still tells the truth, by one small and one large call: false when a time is off by more than half
/// or double. Equal on all ranks.
Result<bool> still_holds(const hierarchy::Layout& layout, const LinkModel& model, const TimedCall& timed_call);

}  // namespace foldcast::select
