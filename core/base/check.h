#pragma once

namespace foldcast {

/// Prints where and why to stderr and aborts. For broken invariants only: an error a user can cause is a Status.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* message);

}  // namespace foldcast

#define FOLDCAST_CHECK(condition, message)                                               \
  do {                                                                                   \
    if (!(condition)) ::foldcast::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)
