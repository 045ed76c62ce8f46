#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/check.h"

namespace foldcast {

/// What kind of thing went wrong. Few on purpose: the message carries the detail.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument,    ///< the caller's mistake; nothing was done
  kUnsupported,        ///< a combination nothing here can do; decided when planning, on all ranks alike
  kUnavailable,        ///< something the machine lacks or an address nobody answers at
  kTimeout,            ///< a deadline passed; the message names what was waited for
  kPeerFailed,         ///< a rank, aggregator or host is gone; the message names it
  kMismatch,           ///< two ranks called differently; the message names both sides
  kResourceExhausted,  ///< a quota, limit or the system's memory or descriptors
  kAborted,            ///< the communicator was aborted or is broken by an earlier error
  kSystem,             ///< a system call failed; the message has its error text
  kInternal,           ///< a bug in Foldcast
};

/// The name as the C ABI and the documentation spell it, e.g. "peer failed".
std::string_view to_string(Code code);

/// Success, or a code and one line for a person: who (rank, host, peer), what (quantity, limit) and what to do next.
/// Copies are cheap (shared, immutable); success allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);

  bool ok() const { return detail_ == nullptr; }
  Code code() const { return detail_ ? detail_->code : Code::kOk; }
  const std::string& message() const;
  /// "peer failed: rank 3 (node3) closed its connection".
  std::string to_string() const;
  /// The same error with `context` and ": " before its message; success stays success.
  Status with_context(std::string_view context) const;

 private:
  struct Detail {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Detail> detail_;
};

inline Status ok_status() { return {}; }
Status invalid_argument(std::string message);
Status unsupported(std::string message);
Status unavailable(std::string message);
Status timeout(std::string message);
Status peer_failed(std::string message);
Status mismatch(std::string message);
Status resource_exhausted(std::string message);
Status aborted(std::string message);
Status internal_error(std::string message);
/// `what` and the text of `error_number`, e.g. "bind to 10.0.0.1:7000: Address already in use".
Status system_error(std::string_view what, int error_number);

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    FOLDCAST_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    FOLDCAST_CHECK(ok(), status_.to_string().c_str());
    return *value_;
  }
  const T& value() const& {
    FOLDCAST_CHECK(ok(), status_.to_string().c_str());
    return *value_;
  }
  T&& value() && {
    FOLDCAST_CHECK(ok(), status_.to_string().c_str());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace foldcast

/// Returns the error of a Status expression from the enclosing function.
#define FOLDCAST_RETURN_IF_ERROR(expression)                                         \
  do {                                                                               \
    if (::foldcast::Status status__ = (expression); !status__.ok()) return status__; \
  } while (false)

#define FOLDCAST_CONCAT_INNER(a, b) a##b
#define FOLDCAST_CONCAT(a, b) FOLDCAST_CONCAT_INNER(a, b)
/// `FOLDCAST_ASSIGN(auto store, Store::create(...))`: the value, or returns the error from the enclosing function.
#define FOLDCAST_ASSIGN(target, expression)                                                           \
  auto FOLDCAST_CONCAT(result__, __LINE__) = (expression);                                            \
  if (!FOLDCAST_CONCAT(result__, __LINE__).ok()) return FOLDCAST_CONCAT(result__, __LINE__).status(); \
  target = std::move(FOLDCAST_CONCAT(result__, __LINE__)).value()
