#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "foldcast.h"

/// The C++ face of foldcast.h: owners instead of pointers, types instead of enumerators, exceptions instead of codes.
/// Header-only, so that the ABI stays C. The inner namespace keeps its symbols apart from those of a library that is
/// linked statically, and from those of another version.
namespace foldcast::api {
inline namespace v0 {

/// What a failed call throws: its code, and in what() the explanation.
class Error : public std::runtime_error {
 public:
  Error(foldcast_result_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  foldcast_result_t code() const { return code_; }

 private:
  foldcast_result_t code_;
};

/// Throws where `result` is an error.
inline void check(foldcast_result_t result) {
  if (result != FOLDCAST_SUCCESS) {
    throw Error(result, std::string(foldcast_result_string(result)) + ": " + foldcast_last_error());
  }
}

/// The datatype of a C++ element type. 16- and 8-bit floats have no standard type in C++20: use the calls that name a
/// datatype.
template <typename T>
constexpr foldcast_datatype_t datatype_of();
template <>
constexpr foldcast_datatype_t datatype_of<bool>() {
  return FOLDCAST_BOOL;
}
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

/// How many elements a call or a block of it has, and of what.
struct Elements {
  std::size_t count = 0;
  foldcast_datatype_t dtype = FOLDCAST_FLOAT32;
};

/// A block for each rank: its number of elements and where it starts; without displacements one after the other. The
/// arrays are borrowed: by a non-blocking call, until it is over.
struct Blocks {
  std::span<const std::size_t> counts;
  std::span<const std::size_t> displacements = {};
  const std::size_t* starts() const { return displacements.empty() ? nullptr : displacements.data(); }
};

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

/// Calls of this thread in its life are only noted, and start together at end(). Destroying it without end() (when
/// something was thrown) ends the group too, and drops what its calls failed with.
class Group {
 public:
  Group() { check(foldcast_group_start()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) (void)foldcast_group_end();
  }
  void end() {
    open_ = false;
    check(foldcast_group_end());
  }

 private:
  bool open_ = true;
};

/// An op of the application's own; no call with it may be outstanding when it is destroyed.
class Op {
 public:
  /// `function` and `context` are borrowed for the op's life. See foldcast_op_create.
  explicit Op(foldcast_op_function_t function, bool commutative = true, void* context = nullptr) {
    check(foldcast_op_create(function, commutative ? 1 : 0, context, &op_));
  }
  /// A sum of contributions that are first multiplied by `scalar`, this rank's.
  template <typename T>
  static Op premul_sum(T scalar) {
    return premul_sum(&scalar, datatype_of<T>());
  }
  static Op premul_sum(const void* scalar, foldcast_datatype_t dtype) {
    foldcast_op_t op = FOLDCAST_SUM;
    check(foldcast_op_create_premul_sum(scalar, dtype, &op));
    return Op(op);
  }
  Op(Op&& other) noexcept : op_(std::exchange(other.op_, FOLDCAST_SUM)) {}
  Op& operator=(Op&& other) noexcept {
    std::swap(op_, other.op_);
    return *this;
  }
  ~Op() {
    if (op_ != FOLDCAST_SUM) (void)foldcast_op_destroy(op_);
  }
  foldcast_op_t get() const { return op_; }

 private:
  explicit Op(foldcast_op_t op) : op_(op) {}
  foldcast_op_t op_ = FOLDCAST_SUM;  ///< what a moved-from one has
};

/// An ordered set of ranks. See foldcast.h for what each call promises: the ones here have its names, arguments and
/// meaning. Where spans are given, they say how many elements there are.
class Communicator {
 public:
  /// Of the whole job. Collective.
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

  /// Nothing where the colour is FOLDCAST_UNDEFINED.
  std::optional<Communicator> split(int colour, int key = 0) {
    foldcast_comm_t made = nullptr;
    check(foldcast_comm_split(comm_, colour, key, &made));
    if (made == nullptr) return std::nullopt;
    return Communicator(made);
  }
  Communicator dup() {
    foldcast_comm_t made = nullptr;
    check(foldcast_comm_dup(comm_, &made));
    return Communicator(made);
  }
  /// Of the ranks that are still alive.
  Communicator shrink() {
    foldcast_comm_t made = nullptr;
    check(foldcast_comm_shrink(comm_, &made));
    return Communicator(made);
  }
  /// From any thread.
  void abort() { check(foldcast_comm_abort(comm_)); }

  void set_path(foldcast_path_t path) { check(foldcast_comm_set_path(comm_, path)); }
  void set_plan(const std::string& name) { check(foldcast_comm_set_plan(comm_, name.c_str())); }
  void set_wire_format(foldcast_wire_format_t format) { check(foldcast_comm_set_wire_format(comm_, format)); }

  foldcast_plan_info_t plan(const foldcast_shape_t& shape) const {
    foldcast_plan_info_t info;
    check(foldcast_plan(comm_, &shape, &info));
    return info;
  }
  std::string explain(const foldcast_shape_t& shape) const {
    const char* text = "";
    check(foldcast_explain(comm_, &shape, &text));
    return text;
  }
  std::string steps(const foldcast_shape_t& shape, foldcast_steps_format_t format = FOLDCAST_STEPS_TEXT) const {
    const char* text = "";
    check(foldcast_steps(comm_, &shape, format, &text));
    return text;
  }

  /// A send buffer; the element type is deduced from what is received.
  template <typename T>
  using Input = std::type_identity_t<std::span<const T>>;

  void all_reduce(const void* send, void* recv, Elements elements, foldcast_op_t op) {
    check(foldcast_all_reduce(send, recv, elements.count, elements.dtype, op, comm_, nullptr));
  }
  [[nodiscard]] Request iall_reduce(const void* send, void* recv, Elements elements, foldcast_op_t op) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iall_reduce(send, recv, elements.count, elements.dtype, op, comm_, nullptr, request);
    });
  }
  /// In place over `values`.
  template <typename T>
  void all_reduce(std::span<T> values, foldcast_op_t op = FOLDCAST_SUM) {
    all_reduce(FOLDCAST_IN_PLACE, values.data(), {values.size(), datatype_of<T>()}, op);
  }
  template <typename T>
  void all_reduce(Input<T> send, std::span<T> recv, foldcast_op_t op = FOLDCAST_SUM) {
    require(recv.size(), send.size());
    all_reduce(send.data(), recv.data(), {send.size(), datatype_of<T>()}, op);
  }
  void all_reduce(const void* send, void* recv, std::size_t count, foldcast_datatype_t dtype, foldcast_op_t op) {
    all_reduce(send, recv, {count, dtype}, op);
  }

  void reduce(const void* send, void* recv, Elements elements, foldcast_op_t op, int root) {
    check(foldcast_reduce(send, recv, elements.count, elements.dtype, op, root, comm_, nullptr));
  }
  [[nodiscard]] Request ireduce(const void* send, void* recv, Elements elements, foldcast_op_t op, int root) {
    return started([&](foldcast_request_t* request) {
      return foldcast_ireduce(send, recv, elements.count, elements.dtype, op, root, comm_, nullptr, request);
    });
  }
  /// In place on the root; elsewhere `values` is only read.
  template <typename T>
  void reduce(std::span<T> values, int root, foldcast_op_t op = FOLDCAST_SUM) {
    const void* send = rank() == root ? FOLDCAST_IN_PLACE : values.data();
    reduce(send, values.data(), {values.size(), datatype_of<T>()}, op, root);
  }

  void broadcast(const void* send, void* recv, Elements elements, int root) {
    check(foldcast_broadcast(send, recv, elements.count, elements.dtype, root, comm_, nullptr));
  }
  [[nodiscard]] Request ibroadcast(const void* send, void* recv, Elements elements, int root) {
    return started([&](foldcast_request_t* request) {
      return foldcast_ibroadcast(send, recv, elements.count, elements.dtype, root, comm_, nullptr, request);
    });
  }
  /// From the root's `values` to everybody's.
  template <typename T>
  void broadcast(std::span<T> values, int root) {
    broadcast(FOLDCAST_IN_PLACE, values.data(), {values.size(), datatype_of<T>()}, root);
  }

  void reduce_scatter(const void* send, void* recv, Elements block, foldcast_op_t op) {
    check(foldcast_reduce_scatter(send, recv, block.count, block.dtype, op, comm_, nullptr));
  }
  [[nodiscard]] Request ireduce_scatter(const void* send, void* recv, Elements block, foldcast_op_t op) {
    return started([&](foldcast_request_t* request) {
      return foldcast_ireduce_scatter(send, recv, block.count, block.dtype, op, comm_, nullptr, request);
    });
  }
  /// `send` has a block for each rank.
  template <typename T>
  void reduce_scatter(Input<T> send, std::span<T> recv, foldcast_op_t op = FOLDCAST_SUM) {
    std::size_t count = block(send.size(), size());
    require(recv.size(), count);
    reduce_scatter(send.data(), recv.data(), {count, datatype_of<T>()}, op);
  }

  void all_gather(const void* send, void* recv, Elements block) {
    check(foldcast_all_gather(send, recv, block.count, block.dtype, comm_, nullptr));
  }
  [[nodiscard]] Request iall_gather(const void* send, void* recv, Elements block) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iall_gather(send, recv, block.count, block.dtype, comm_, nullptr, request);
    });
  }
  template <typename T>
  void all_gather(Input<T> send, std::span<T> recv) {
    require(recv.size(), send.size() * static_cast<std::size_t>(size()));
    all_gather(send.data(), recv.data(), {send.size(), datatype_of<T>()});
  }

  void all_to_all(const void* send, void* recv, Elements block) {
    check(foldcast_all_to_all(send, recv, block.count, block.dtype, comm_, nullptr));
  }
  [[nodiscard]] Request iall_to_all(const void* send, void* recv, Elements block) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iall_to_all(send, recv, block.count, block.dtype, comm_, nullptr, request);
    });
  }
  template <typename T>
  void all_to_all(Input<T> send, std::span<T> recv) {
    require(recv.size(), send.size());
    all_to_all(send.data(), recv.data(), {block(send.size(), size()), datatype_of<T>()});
  }

  void gather(const void* send, void* recv, Elements block, int root) {
    check(foldcast_gather(send, recv, block.count, block.dtype, root, comm_, nullptr));
  }
  [[nodiscard]] Request igather(const void* send, void* recv, Elements block, int root) {
    return started([&](foldcast_request_t* request) {
      return foldcast_igather(send, recv, block.count, block.dtype, root, comm_, nullptr, request);
    });
  }
  /// `recv` may be empty but on the root.
  template <typename T>
  void gather(Input<T> send, std::span<T> recv, int root) {
    if (rank() == root) require(recv.size(), send.size() * static_cast<std::size_t>(size()));
    gather(send.data(), recv.data(), {send.size(), datatype_of<T>()}, root);
  }

  void scatter(const void* send, void* recv, Elements block, int root) {
    check(foldcast_scatter(send, recv, block.count, block.dtype, root, comm_, nullptr));
  }
  [[nodiscard]] Request iscatter(const void* send, void* recv, Elements block, int root) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iscatter(send, recv, block.count, block.dtype, root, comm_, nullptr, request);
    });
  }
  /// `send` may be empty but on the root.
  template <typename T>
  void scatter(Input<T> send, std::span<T> recv, int root) {
    if (rank() == root) require(send.size(), recv.size() * static_cast<std::size_t>(size()));
    scatter(send.data(), recv.data(), {recv.size(), datatype_of<T>()}, root);
  }

  void barrier() { check(foldcast_barrier(comm_, nullptr)); }
  [[nodiscard]] Request ibarrier() {
    return started([&](foldcast_request_t* request) { return foldcast_ibarrier(comm_, nullptr, request); });
  }

  void send(const void* buffer, Elements elements, int peer) {
    check(foldcast_send(buffer, elements.count, elements.dtype, peer, comm_, nullptr));
  }
  [[nodiscard]] Request isend(const void* buffer, Elements elements, int peer) {
    return started([&](foldcast_request_t* request) {
      return foldcast_isend(buffer, elements.count, elements.dtype, peer, comm_, nullptr, request);
    });
  }
  template <typename T>
  void send(std::span<const T> values, int peer) {
    send(values.data(), {values.size(), datatype_of<T>()}, peer);
  }

  void recv(void* buffer, Elements elements, int peer) {
    check(foldcast_recv(buffer, elements.count, elements.dtype, peer, comm_, nullptr));
  }
  [[nodiscard]] Request irecv(void* buffer, Elements elements, int peer) {
    return started([&](foldcast_request_t* request) {
      return foldcast_irecv(buffer, elements.count, elements.dtype, peer, comm_, nullptr, request);
    });
  }
  template <typename T>
  void recv(std::span<T> values, int peer) {
    recv(values.data(), {values.size(), datatype_of<T>()}, peer);
  }

  void reduce_scatterv(const void* send, void* recv, std::span<const std::size_t> counts, foldcast_datatype_t dtype,
                       foldcast_op_t op) {
    check(foldcast_reduce_scatterv(send, recv, counts.data(), dtype, op, comm_, nullptr));
  }
  [[nodiscard]] Request ireduce_scatterv(const void* send, void* recv, std::span<const std::size_t> counts,
                                         foldcast_datatype_t dtype, foldcast_op_t op) {
    return started([&](foldcast_request_t* request) {
      return foldcast_ireduce_scatterv(send, recv, counts.data(), dtype, op, comm_, nullptr, request);
    });
  }

  void all_gatherv(const void* send, void* recv, const Blocks& blocks, foldcast_datatype_t dtype) {
    check(foldcast_all_gatherv(send, recv, blocks.counts.data(), blocks.starts(), dtype, comm_, nullptr));
  }
  [[nodiscard]] Request iall_gatherv(const void* send, void* recv, const Blocks& blocks, foldcast_datatype_t dtype) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iall_gatherv(send, recv, blocks.counts.data(), blocks.starts(), dtype, comm_, nullptr, request);
    });
  }

  void all_to_allv(const void* send, const Blocks& send_blocks, void* recv, const Blocks& recv_blocks,
                   foldcast_datatype_t dtype) {
    check(foldcast_all_to_allv(send, send_blocks.counts.data(), send_blocks.starts(), recv, recv_blocks.counts.data(),
                               recv_blocks.starts(), dtype, comm_, nullptr));
  }
  [[nodiscard]] Request iall_to_allv(const void* send, const Blocks& send_blocks, void* recv, const Blocks& recv_blocks,
                                     foldcast_datatype_t dtype) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iall_to_allv(send, send_blocks.counts.data(), send_blocks.starts(), recv,
                                   recv_blocks.counts.data(), recv_blocks.starts(), dtype, comm_, nullptr, request);
    });
  }

  void gatherv(const void* send, void* recv, Elements own, const Blocks& blocks, int root) {
    check(foldcast_gatherv(send, own.count, recv, blocks.counts.data(), blocks.starts(), own.dtype, root, comm_,
                           nullptr));
  }
  [[nodiscard]] Request igatherv(const void* send, void* recv, Elements own, const Blocks& blocks, int root) {
    return started([&](foldcast_request_t* request) {
      return foldcast_igatherv(send, own.count, recv, blocks.counts.data(), blocks.starts(), own.dtype, root, comm_,
                               nullptr, request);
    });
  }

  void scatterv(const void* send, void* recv, Elements own, const Blocks& blocks, int root) {
    check(foldcast_scatterv(send, blocks.counts.data(), blocks.starts(), recv, own.count, own.dtype, root, comm_,
                            nullptr));
  }
  [[nodiscard]] Request iscatterv(const void* send, void* recv, Elements own, const Blocks& blocks, int root) {
    return started([&](foldcast_request_t* request) {
      return foldcast_iscatterv(send, blocks.counts.data(), blocks.starts(), recv, own.count, own.dtype, root, comm_,
                                nullptr, request);
    });
  }

 private:
  explicit Communicator(foldcast_comm_t comm) : comm_(comm) {}
  int query(foldcast_result_t (*ask)(foldcast_comm_t, int*)) const {
    int value = 0;
    check(ask(comm_, &value));
    return value;
  }
  template <typename Start>
  static Request started(Start start) {
    foldcast_request_t request = nullptr;
    check(start(&request));
    return Request(request);
  }
  /// Of a span that should have `parts` blocks.
  static std::size_t block(std::size_t elements, int parts) {
    auto ranks = static_cast<std::size_t>(parts);
    if (elements % ranks == 0) return elements / ranks;
    throw Error(FOLDCAST_INVALID_ARGUMENT, std::to_string(elements) + " elements are no whole number for each of " +
                                               std::to_string(parts) +
                                               " ranks; give a span of as many blocks as there are ranks");
  }
  static void require(std::size_t have, std::size_t need) {
    if (have >= need) return;
    throw Error(FOLDCAST_INVALID_ARGUMENT, "a span has " + std::to_string(have) + " elements where the call needs " +
                                               std::to_string(need) + "; give a larger one");
  }

  foldcast_comm_t comm_ = nullptr;
};

}  // namespace v0
}  // namespace foldcast::api
