#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/runtime/binding.h"
#include "core/runtime/executor.h"
#include "core/select/call_shape.h"

namespace foldcast::api {

/// As a send or receive buffer: see foldcast.h.
inline const void* const kInPlace = reinterpret_cast<const void*>(1);

/// Counts and displacements of one buffer's blocks, in elements; as the caller gave them.
struct BlockList {
  const std::size_t* counts = nullptr;
  const std::size_t* displacements = nullptr;  ///< null: one after the other
  friend bool operator==(const BlockList&, const BlockList&) = default;
};

/// A call as it came in. Nothing of it is checked.
struct CollectiveCall {
  Collective kind = Collective::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t count = 0;
  Datatype dtype = Datatype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  std::int32_t root = 0;               ///< of send_recv: the peer
  bool sends = false;                  ///< of send_recv
  BlockList sent = {}, received = {};  ///< of the kinds with variable counts
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

/// One call under way: what the plan's binding points to, and what is left to do when it has finished. Not movable
/// while it runs.
class Operation {
 public:
  /// Checks the call and works out where its blocks are, for `rank` of `size`. kInvalidArgument says what is wrong.
  Status prepare(const CollectiveCall& call, std::int32_t rank, std::int32_t size);
  /// What the caller sees beyond what the plan wrote.
  void finish();

  const CollectiveCall& call() const { return call_; }
  const select::CallShape& shape() const { return shape_; }
  runtime::Binding& binding() { return binding_; }
  /// Whether the binding is all there is to it: nothing of this object or of its caller's lists is used while it runs,
  /// finish() does nothing, and the op is one of ours.
  bool is_plain() const;
  /// Uneven blocks with gaps between them: a group's single call wants them without.
  bool has_gaps() const { return gaps_; }
  void close_gaps();

  runtime::Execution* execution = nullptr;

 private:
  Status resolve_in_place();
  Status check_buffers() const;
  Status check_op();
  Status make_tables();
  Status make_table(const BlockList& list, const char* what, runtime::BlockTable& table) const;
  void bind();
  Status scale_input();
  bool shares_memory() const;
  std::uint64_t send_offset_of_own() const;  ///< of the own block in the whole, bytes
  std::uint64_t element_bytes() const { return size_of(call_.dtype); }

  CollectiveCall call_;
  std::int32_t rank_ = 0, size_ = 1;
  select::CallShape shape_;
  runtime::Binding binding_;
  std::uint64_t send_elements_ = 0, recv_elements_ = 0;  ///< what the buffers span
  bool result_to_front_ = false;                         ///< reduce_scatter in place: see foldcast.h
  bool gaps_ = false;
  std::byte barrier_{};
  runtime::BlockTable sent_, received_, spread_;
  std::vector<std::byte> staged_;  ///< scaled input, or output without gaps
};

/// Checks what a question about a plan can ask.
Status validate_shape(const CollectiveCall& call);

}  // namespace foldcast::api
