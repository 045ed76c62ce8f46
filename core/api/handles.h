#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "core/api/communicator.h"
#include "core/api/foldcast.h"
#include "core/api/fused_calls.h"

struct foldcast_comm {
  std::unique_ptr<foldcast::api::Communicator> communicator;
  std::string text;  ///< what the last question for one was answered with
};

struct foldcast_request {
  foldcast::api::Communicator* communicator = nullptr;
  foldcast::api::Operation operation;
  std::shared_ptr<foldcast::api::FusedCalls> fused;  ///< instead of `operation`
  bool noted = false;                                ///< its group has not ended yet
  foldcast::Status failed;                           ///< it could not be started
};

namespace foldcast::api {

/// Keeps the explanation for foldcast_last_error() and gives the code.
foldcast_result_t report(const Status& status);

/// The C ABI's border: what libraries below may throw ends here.
template <typename Call>
foldcast_result_t guarded(Call&& call) {
  try {
    return report(call());
  } catch (const std::bad_alloc&) {
    return report(resource_exhausted("out of memory"));
  } catch (const std::exception& error) {
    return report(internal_error(error.what()));
  }
}

inline Status need(const void* pointer, const char* what) {
  if (pointer != nullptr) return ok_status();
  return invalid_argument(std::string(what) + " is NULL");
}

/// Values that no enumerator has must not become one in the narrower enumerations.
template <typename Enum>
Enum narrow(int value) {
  return static_cast<Enum>(value < 0 || value > 255 ? 255 : value);
}

}  // namespace foldcast::api
