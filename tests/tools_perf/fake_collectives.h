#pragma once

#include <cstddef>
#include <vector>

#include "core/base/collective.h"
#include "tests/tools_perf/fake_state.h"

namespace foldcast::tools::testing {

struct FakeBlocks {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> starts;
};

/// One call of one rank, whatever the collective.
struct FakeCall {
  Collective kind;
  foldcast_comm_t comm;
  const void* send;
  void* recv;
  foldcast_datatype_t dtype;
  foldcast_op_t op = FOLDCAST_SUM;
  int root = 0;
  std::size_t count = 0;  ///< of this rank, where the buffer has no blocks
  FakeBlocks send_blocks = {};
  FakeBlocks recv_blocks = {};
  int send_peer = -1;
  int recv_peer = -1;
};

/// Of what foldcast.h's calls are given; `starts` may be null.
FakeBlocks blocks(const std::size_t* counts, const std::size_t* starts);
FakeBlocks equal_blocks(std::size_t count);

/// Publishes what this rank sends, packed block by block; meets; takes from everybody's contribution what is its own;
/// meets. Then waits for as long as the call is to take.
foldcast_result_t blocking(const FakeCall& call);
/// The same, but only the request waits.
foldcast_result_t start(const FakeCall& call, foldcast_request_t* request);
/// One half of an exchange between neighbours: the second one to be called runs both.
foldcast_result_t note_exchange(const FakeCall& half);

}  // namespace foldcast::tools::testing
