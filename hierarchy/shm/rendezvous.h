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
struct Membership {
  std::shared_ptr<Segment> segment;
  std::vector<UniqueFd> doorbells;  ///< an eventfd per rank; the own one is to sleep on
};

/// Meets the other members over an abstract Unix socket at which local rank 0 listens (see rendezvous_messages.h for
/// what they say). All members succeed or all fail, with an error that says which member is missing, differs or failed.
/// Blocks until then, at most until the options' timeout.
Result<Membership> meet(const ShmOptions& options, const SegmentShape& shape);

/// The name in the abstract namespace, which everyone on the machine can list: made from the group's name by a hash, so
/// that it does not tell the name, which is the password.
std::string rendezvous_address(std::string_view name);

}  // namespace foldcast::hierarchy
