#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/unique_fd.h"
#include "hierarchy/shm/segment.h"
#include "hierarchy/shm/shm_node_group.h"

namespace foldcast::hierarchy {

/// What the members have in common once they have met.
struct Meeting {
  std::shared_ptr<Segment> segment;
  std::vector<UniqueFd> doorbells;  ///< an eventfd per rank; the own one is to sleep on. None of Bells::kHave
};

/// Whether the members exchange doorbells or already have each other's, from the group above.
enum class Bells { kMake, kHave };

/// Meets the other members over an abstract Unix socket at which local rank 0 listens (see rendezvous_messages.h for
/// what they say). All members succeed or all fail, with an error that says which member is missing, differs or failed.
/// Blocks until then, at most until the options' timeout.
Result<Meeting> meet(const ShmOptions& options, const SegmentShape& shape, Bells bells);

/// The name in the abstract namespace, which everyone on the machine can list: made from the group's name by a hash, so
/// that it does not tell the name, which is the password.
std::string rendezvous_address(std::string_view name);

}  // namespace foldcast::hierarchy
