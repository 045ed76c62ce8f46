#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "foldcast.h"

/// The C++ face of foldcast.h: owners instead of pointers, types instead of enumerators, exceptions instead of codes.
/// Header-only, so that the ABI stays C.
namespace foldcast::api {

/// What a failed call throws: its code, and in what() the explanation.
class Error : public std::runtime_error {
 public:
  Error(foldcast_result_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  foldcast_result_t code() const { return code_; }

 private:
  foldcast_result_t code_;
};

inline void check(foldcast_result_t result) {
  if (result != FOLDCAST_SUCCESS) {
    throw Error(result, std::string(foldcast_result_string(result)) + ": " + foldcast_last_error());
  }
}

/// The datatype of a C++ element type. 16-bit floats have no standard type in C++20: use the calls that name a
/// datatype.
template <typename T>
constexpr foldcast_datatype_t datatype_of();
template <>
constexpr foldcast_datatype_t datatype_of<std::int8_t>() {
  return FOLDCAST_INT8;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::uint8_t>() {
  return FOLDCAST_UINT8;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::int16_t>() {
  return FOLDCAST_INT16;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::uint16_t>() {
  return FOLDCAST_UINT16;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::int32_t>() {
  return FOLDCAST_INT32;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::uint32_t>() {
  return FOLDCAST_UINT32;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::int64_t>() {
  return FOLDCAST_INT64;
}
template <>
constexpr foldcast_datatype_t datatype_of<std::uint64_t>() {
  return FOLDCAST_UINT64;
}
template <>
constexpr foldcast_datatype_t datatype_of<float>() {
  return FOLDCAST_FLOAT32;
}
template <>
constexpr foldcast_datatype_t datatype_of<double>() {
  return FOLDCAST_FLOAT64;
}

/// An outstanding call. Destroying it waits; wait() throws what the call failed with.
class Request {
 public:
  Request() = default;
  explicit Request(foldcast_request_t request) : request_(request) {}
  Request(Request&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(request_, other.request_);
    return *this;
  }
  ~Request() {
    if (request_ != nullptr) (void)foldcast_request_wait(&request_);
  }
  void wait() {
    if (request_ != nullptr) check(foldcast_request_wait(&request_));
  }
  bool test() {
    if (request_ == nullptr) return true;
    int done = 0;
    check(foldcast_request_test(&request_, &done));
    return done != 0;
  }

 private:
  foldcast_request_t request_ = nullptr;
};

/// The ranks of a job. See foldcast.h for what each call promises.
class Communicator {
 public:
  Communicator() { check(foldcast_comm_init(&comm_)); }
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~Communicator() { (void)foldcast_comm_destroy(comm_); }

  int rank() const { return query(foldcast_comm_rank); }
  int size() const { return query(foldcast_comm_size); }
  int local_rank() const { return query(foldcast_comm_local_rank); }
  int node_count() const { return query(foldcast_comm_node_count); }
  int node() const { return query(foldcast_comm_node); }
  foldcast_comm_t get() const { return comm_; }

  void set_path(foldcast_path_t path) { check(foldcast_comm_set_path(comm_, path)); }
  void set_plan(const std::string& name) { check(foldcast_comm_set_plan(comm_, name.c_str())); }

  /// In place over `values`.
  template <typename T>
  void all_reduce(std::span<T> values, foldcast_op_t op = FOLDCAST_SUM) {
    check(foldcast_all_reduce(FOLDCAST_IN_PLACE, values.data(), values.size(), datatype_of<T>(), op, comm_, nullptr));
  }
  void all_reduce(const void* send, void* recv, std::size_t count, foldcast_datatype_t dtype, foldcast_op_t op) {
    check(foldcast_all_reduce(send, recv, count, dtype, op, comm_, nullptr));
  }
  [[nodiscard]] Request iall_reduce(const void* send, void* recv, std::size_t count, foldcast_datatype_t dtype,
                                    foldcast_op_t op) {
    foldcast_request_t request = nullptr;
    check(foldcast_iall_reduce(send, recv, count, dtype, op, comm_, nullptr, &request));
    return Request(request);
  }
  void barrier() { check(foldcast_barrier(comm_, nullptr)); }

  foldcast_plan_info_t all_reduce_plan(std::size_t count, foldcast_datatype_t dtype, foldcast_op_t op) const {
    foldcast_plan_info_t info;
    check(foldcast_all_reduce_plan(count, dtype, op, comm_, &info));
    return info;
  }
  std::string explain_all_reduce(std::size_t count, foldcast_datatype_t dtype, foldcast_op_t op) const {
    const char* text = "";
    check(foldcast_all_reduce_explain(count, dtype, op, comm_, &text));
    return text;
  }

 private:
  int query(foldcast_result_t (*ask)(foldcast_comm_t, int*)) const {
    int value = 0;
    check(ask(comm_, &value));
    return value;
  }
  foldcast_comm_t comm_ = nullptr;
};

}  // namespace foldcast::api
