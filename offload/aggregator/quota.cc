#include "offload/aggregator/quota.h"

#include <algorithm>

namespace foldcast::offload {
namespace {

bool over(std::uint64_t used, std::uint64_t more, std::uint64_t limit) {
  return limit != 0 && (more > limit || used > limit - more);
}

}  // namespace

Status Quota::reserve(std::uint64_t job, std::uint64_t memory) {
  const Use mine = jobs_.contains(job) ? jobs_.at(job) : Use{};
  const std::string who = "aggregator " + aggregator_ + " is full: ";
  const auto bytes = [&](std::uint64_t used, std::uint64_t limit) {
    return std::to_string(used) + " of " + std::to_string(limit) + " bytes are in use, the group needs " +
           std::to_string(memory);
  };
  if (over(total_.groups, 1, limits_.groups)) {
    return resource_exhausted(who + "all " + std::to_string(limits_.groups) + " groups are in use");
  }
  if (over(mine.groups, 1, limits_.groups_per_job)) {
    return resource_exhausted(who + "this job has all its " + std::to_string(limits_.groups_per_job) + " groups");
  }
  if (over(total_.memory, memory, limits_.memory)) {
    return resource_exhausted(who + bytes(total_.memory, limits_.memory));
  }
  if (over(mine.memory, memory, limits_.memory_per_job)) {
    return resource_exhausted(who + "of this job's share " + bytes(mine.memory, limits_.memory_per_job));
  }
  for (Use* use : {&total_, &jobs_[job]}) {
    ++use->groups;
    use->memory += memory;
  }
  peak_memory_ = std::max(peak_memory_, total_.memory);
  return ok_status();
}

void Quota::release(std::uint64_t job, std::uint64_t memory) {
  Use& mine = jobs_[job];
  for (Use* use : {&total_, &mine}) {
    --use->groups;
    use->memory -= memory;
  }
  if (mine.groups == 0) jobs_.erase(job);
}

}  // namespace foldcast::offload
