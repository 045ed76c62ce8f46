#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"
#include "transports/ucx/ucx.h"

namespace foldcast::transports {

/// A UCP context with one worker, for one thread.
class UcxWorker {
 public:
  /// `devices` as UCX_NET_DEVICES; empty: all. Settings the user gave in UCX_* stay; the others get our values.
  static Result<std::unique_ptr<UcxWorker>> create(const std::string& devices);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }
  /// The transports and devices in use, "tcp/eth0" each.
  std::vector<std::string> devices() const;
  unsigned progress() { return ucp_worker_progress(worker_); }
  int descriptor() const { return descriptor_; }
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }
  /// Progress until `done()` or `deadline`, asleep while nothing happens. Whether it was done.
  template <typename Done>
  bool progress_until(Deadline deadline, Done done);
  Result<std::string> address() const;

 private:
  UcxWorker() = default;
  void sleep(Deadline deadline);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;  // the worker's own
};

template <typename Done>
bool UcxWorker::progress_until(Deadline deadline, Done done) {
  while (!done()) {
    if (deadline.passed()) return false;
    if (progress() == 0 && !done()) sleep(deadline);
  }
  return true;
}

}  // namespace foldcast::transports
