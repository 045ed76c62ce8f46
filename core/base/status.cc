#include "core/base/status.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace foldcast {

void check_failed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "foldcast: %s:%d: broken invariant: %s (%s)\n", file, line, condition, message);
  std::abort();
}

std::string_view to_string(Code code) {
  switch (code) {
    case Code::kOk:
      return "success";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kTimeout:
      return "timed out";
    case Code::kPeerFailed:
      return "peer failed";
    case Code::kMismatch:
      return "mismatch";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kAborted:
      return "aborted";
    case Code::kSystem:
      return "system error";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status::Status(Code code, std::string message) {
  FOLDCAST_CHECK(code != Code::kOk, "an error needs a code other than success");
  detail_ = std::make_shared<const Detail>(Detail{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string empty;
  return detail_ ? detail_->message : empty;
}

std::string Status::to_string() const {
  if (ok()) return "success";
  return std::string(foldcast::to_string(code())) + ": " + message();
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), std::string(context) + ": " + message());
}

Status invalid_argument(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }
Status unsupported(std::string message) { return Status(Code::kUnsupported, std::move(message)); }
Status unavailable(std::string message) { return Status(Code::kUnavailable, std::move(message)); }
Status timeout(std::string message) { return Status(Code::kTimeout, std::move(message)); }
Status peer_failed(std::string message) { return Status(Code::kPeerFailed, std::move(message)); }
Status mismatch(std::string message) { return Status(Code::kMismatch, std::move(message)); }
Status resource_exhausted(std::string message) { return Status(Code::kResourceExhausted, std::move(message)); }
Status aborted(std::string message) { return Status(Code::kAborted, std::move(message)); }
Status internal_error(std::string message) { return Status(Code::kInternal, std::move(message)); }

Status system_error(std::string_view what, int error_number) {
  return Status(Code::kSystem, std::string(what) + ": " + std::strerror(error_number));
}

}  // namespace foldcast
