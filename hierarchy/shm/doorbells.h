#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::hierarchy {

/// One rank's view of the eventfds its node's ranks sleep on, one each. Groups over the same ranks share it: however
/// many there are, they have these descriptors.
///
/// The own descriptor stays readable from a ring until it is drained, and it is drained only when a group arms while
/// none of the rank's groups is armed. So the ring for one group is never taken by another: either the group it is for
/// is still armed, and then nobody drains; or it was polled after it armed, and looks again when it next arms, after
/// the draining. Rings that come late cost a look at every group, nothing else.
///
/// The owner thread of the groups calls all of it.
class Doorbells {
 public:
  /// `descriptors` by the ranks of the largest group, `own` the caller's among them.
  Doorbells(std::vector<UniqueFd> descriptors, std::uint32_t own);

  static Result<UniqueFd> make_one();

  std::uint32_t own() const { return own_; }
  std::size_t size() const { return descriptors_.size(); }
  int descriptor() const { return descriptors_[own_].get(); }
  /// One more group of the rank is armed, which has yet to look whether there is something to do.
  void arm();
  void disarm() { --armed_; }
  void ring(std::uint32_t rank) const;

 private:
  std::vector<UniqueFd> descriptors_;
  std::uint32_t own_;
  std::uint32_t armed_ = 0;
};

}  // namespace foldcast::hierarchy
