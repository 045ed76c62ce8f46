#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "core/api/communicator.h"
#include "core/api/foldcast.h"
#include "core/api/fused_calls.h"
#include "core/base/fork.h"

struct foldcast_comm {
  std::unique_ptr<foldcast::api::Communicator> communicator;
  std::string text = {};  ///< what the last question for one was answered with
  std::uint32_t process = foldcast::process_generation();
};

struct foldcast_request {
  foldcast::api::Communicator* communicator = nullptr;
  std::uint32_t process = foldcast::process_generation();
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

/// A forked child shares its parent's connections: what it said there would be taken for the parent's.
inline Status need_own(std::uint32_t process) {
  if (process == process_generation()) return ok_status();
  return unsupported(
      "this process was forked from the one that made the communicator, which only that one may use: make a job of its "
      "own with foldcast_comm_init, or fork before it");
}

inline Status need(const foldcast_comm* comm, const char* what) {
  FOLDCAST_RETURN_IF_ERROR(need(static_cast<const void*>(comm), what));
  return need_own(comm->process);
}

/// Values that no enumerator has must not become one in the narrower enumerations.
template <typename Enum>
Enum narrow(int value) {
  return static_cast<Enum>(value < 0 || value > 255 ? 255 : value);
}

}  // namespace foldcast::api
