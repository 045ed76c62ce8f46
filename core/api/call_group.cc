#include "core/api/call_group.h"

#include <utility>

namespace foldcast::api {

CallGroup& CallGroup::of_this_thread() {
  thread_local CallGroup group;
  return group;
}

Status CallGroup::note(const CollectiveCall& call, Communicator& communicator, foldcast_request_t* request) {
  // What is wrong with a call is said where it is made.
  Operation check;
  FOLDCAST_RETURN_IF_ERROR(check.prepare(call, communicator.rank(), communicator.size()));
  auto made = std::make_unique<foldcast_request>();
  made->communicator = &communicator;
  made->noted = true;
  Noted noted{call, nullptr, made.get()};
  if (request != nullptr) {
    *request = made.release();
  } else {
    noted.owned = std::move(made);
  }
  noted_.push_back(std::move(noted));
  return ok_status();
}

/// Starts the call at `next`, with those behind it that can be fused with it.
Status CallGroup::start(std::vector<Noted>& all, std::size_t& next) {
  const std::size_t first = next++;
  foldcast_request& request = *all[first].request;
  if (FusedCalls::takes(all[first].call)) {
    auto fused = std::make_shared<FusedCalls>();
    fused->add(all[first].call);
    while (next < all.size() && all[next].request->communicator == request.communicator &&
           fused->takes_next(all[next].call)) {
      fused->add(all[next++].call);
    }
    if (fused->size() > 1) {
      for (std::size_t i = first; i < next; ++i) all[i].request->fused = fused;
      return fused->start(*request.communicator);
    }
  }
  request.failed = request.communicator->start(all[first].call, request.operation);
  return request.failed;
}

Status CallGroup::leave() {
  if (depth_ == 0) return invalid_argument("foldcast_group_end without foldcast_group_start");
  if (--depth_ > 0) return ok_status();
  auto all = std::exchange(noted_, {});
  Status first_error;
  for (auto& noted : all) noted.request->noted = false;
  for (std::size_t next = 0; next < all.size();) {
    const Status status = start(all, next);
    if (first_error.ok()) first_error = status;
  }
  for (auto& noted : all) {
    if (!noted.owned) continue;
    const Status status = finish(*noted.owned);
    if (first_error.ok()) first_error = status;
  }
  return first_error;
}

Status finish(foldcast_request& request) {
  if (request.noted) return invalid_argument("the request's group has not ended: call foldcast_group_end first");
  if (request.fused) return request.fused->finish();
  FOLDCAST_RETURN_IF_ERROR(request.failed);
  return request.communicator->finish(request.operation);
}

bool test(foldcast_request& request) {
  if (request.noted) return false;
  if (request.fused) return request.fused->test();
  return !request.failed.ok() || request.communicator->test(request.operation);
}

}  // namespace foldcast::api
