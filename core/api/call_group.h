#pragma once

#include <memory>
#include <vector>

#include "core/api/handles.h"

namespace foldcast::api {

/// The calling thread's calls between foldcast_group_start and foldcast_group_end.
class CallGroup {
 public:
  static CallGroup& of_this_thread();

  void enter() { ++depth_; }
  bool is_open() const { return depth_ > 0; }
  /// A valid call to be started at the end. `request` null: a blocking one.
  Status note(const CollectiveCall& call, Communicator& communicator, foldcast_request_t* request);
  /// Leaves; at the outermost end starts everything and waits for the blocking calls. The first error, all the same
  /// after trying the rest.
  Status leave();

 private:
  struct Noted {
    CollectiveCall call;
    std::unique_ptr<foldcast_request> owned;  ///< of a blocking call
    foldcast_request* request;
  };
  static Status start(std::vector<Noted>& all, std::size_t& next);

  int depth_ = 0;
  std::vector<Noted> noted_;
};

/// Ends a request that is not null: waits, and gives the call's status.
Status finish(foldcast_request& request);
bool test(foldcast_request& request);

}  // namespace foldcast::api
