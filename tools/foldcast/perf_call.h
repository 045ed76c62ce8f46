#pragma once

#include <cstddef>
#include <vector>

#include "core/api/foldcast.hpp"
#include "tools/foldcast/perf_layout.h"

namespace foldcast::tools {

constexpr foldcast_datatype_t abi(Datatype dtype) { return static_cast<foldcast_datatype_t>(dtype); }
constexpr foldcast_wire_format_t abi(WireFormat format) { return static_cast<foldcast_wire_format_t>(format); }

/// A call with everything that it takes. The communicator, the layout's arrays and the buffers are borrowed.
struct BoundCall {
  api::Communicator& comm;
  const PerfCall& call;
  const CallLayout& layout;
  foldcast_op_t op = FOLDCAST_SUM;  ///< what call.op is to the library
  std::byte* send = nullptr;
  std::byte* recv = nullptr;

  /// Blocks; throws api::Error.
  void run() const;
  /// Starts the non-blocking form: one request, of an exchange between neighbours two.
  std::vector<api::Request> start() const;

 private:
  const void* input() const { return layout.input_in_recv ? FOLDCAST_IN_PLACE : send; }
  void* output() const { return layout.writes_recv ? recv : FOLDCAST_IN_PLACE; }
  api::Elements elements() const { return {call.count, abi(call.dtype)}; }
  api::Elements own() const { return {layout.own_count, abi(call.dtype)}; }
  api::Blocks send_blocks() const { return {layout.send_counts, layout.send_starts}; }
  api::Blocks recv_blocks() const { return {layout.recv_counts, layout.recv_starts}; }
  void exchange() const;
};

/// Waits for all; then throws what the first failed with.
void wait_for(std::vector<api::Request>& requests);

}  // namespace foldcast::tools
