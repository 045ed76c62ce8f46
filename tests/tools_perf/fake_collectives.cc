#include "tests/tools_perf/fake_collectives.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

#include "core/base/reduce_op.h"
#include "tests/tools_perf/serial_reduce.h"
#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools::testing {
namespace {

std::size_t ranks() { return static_cast<std::size_t>(shared->behaviour.ranks); }
std::size_t me() { return static_cast<std::size_t>(this_rank); }
bool is_root(const FakeCall& call) { return call.root == this_rank; }
std::size_t element(const FakeCall& call) { return size_of(static_cast<Datatype>(call.dtype)); }

bool gives(const FakeCall& call) {
  switch (call.kind) {
    case Collective::kBroadcast:
    case Collective::kScatter:
    case Collective::kScatterV:
      return is_root(call);
    case Collective::kBarrier:
      return false;
    default:
      return true;
  }
}

bool is_gather(Collective kind) {
  return kind == Collective::kAllGather || kind == Collective::kAllGatherV || kind == Collective::kGather ||
         kind == Collective::kGatherV;
}
bool is_all_to_all(Collective kind) { return kind == Collective::kAllToAll || kind == Collective::kAllToAllV; }

/// Float8 has a common power of two for the values of a block, which brings the largest below 448.
void round_block(Datatype as, std::byte* values, std::size_t count) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(decode_float(Datatype::kFloat32, values + 4 * i)));
  }
  bool scales = as == Datatype::kFloat8E4m3 && largest > 0;
  double scale = scales ? std::ldexp(1, static_cast<int>(std::floor(std::log2(448 / largest)))) : 1;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte narrow[8];
    encode_float(as, decode_float(Datatype::kFloat32, values + 4 * i) * scale, narrow);
    encode_float(Datatype::kFloat32, decode_float(as, narrow) / scale, values + 4 * i);
  }
}

void round_as_sent(const FakeCall& call, std::byte* values, std::size_t count) {
  if (call.dtype != FOLDCAST_FLOAT32 || !reduces(call.kind)) return;
  bool lossy = shared->behaviour.lossy && count > 1000;  // agreement must work
  if (call.comm->wire == FOLDCAST_WIRE_EXACT && !lossy) return;
  foldcast_wire_format_t wire = lossy ? FOLDCAST_WIRE_FLOAT8 : call.comm->wire;
  Datatype as = wire == FOLDCAST_WIRE_BFLOAT16  ? Datatype::kBfloat16
                : wire == FOLDCAST_WIRE_FLOAT16 ? Datatype::kFloat16
                                                : Datatype::kFloat8E4m3;
  for (std::size_t first = 0; first < count; first += 32) {
    std::size_t block = std::min<std::size_t>(32, count - first);
    round_block(as, values + 4 * first, block);
  }
}

/// Into shared memory, packed; the sizes into the header.
bool publish(const FakeCall& call) {
  FakeHeader& header = shared->headers[me()];
  header = {static_cast<int>(call.kind), call.dtype, call.op, call.root, call.count, {}};
  if (!gives(call)) return true;
  bool in_place = call.send == FOLDCAST_IN_PLACE;
  const auto* from = static_cast<const std::byte*>(in_place ? call.recv : call.send);
  std::size_t size = element(call);
  FakeBlocks given = call.send_blocks;
  if (given.counts.empty()) {
    std::size_t start = in_place && is_gather(call.kind) ? call.recv_blocks.starts[me()] : 0;
    given = {{call.count}, {start}};
  }
  std::byte* to = contribution(this_rank);
  for (std::size_t i = 0; i < given.counts.size(); ++i) {
    std::size_t bytes = given.counts[i] * size;
    if (to + bytes > contribution(this_rank) + kRoom) return false;
    std::memcpy(to, from + given.starts[i] * size, bytes);
    to += bytes;
    header.sends[i] = given.counts[i];
  }
  auto count = static_cast<std::size_t>(to - contribution(this_rank)) / size;
  if (call.op >= 64) {
    const FakePremul& premul = premuls()[static_cast<std::size_t>(call.op) - 64];
    serial_scale(static_cast<Datatype>(call.dtype), premul.scalar, contribution(this_rank), count);
  }
  round_as_sent(call, contribution(this_rank), count);
  return true;
}

bool have_equal_headers(const FakeCall& call) {
  bool counts_differ = has_blocks(call.kind) && call.kind >= Collective::kReduceScatterV;
  for (std::size_t r = 1; r < ranks(); ++r) {
    const FakeHeader& a = shared->headers[0];
    const FakeHeader& b = shared->headers[r];
    if (a.kind != b.kind || a.dtype != b.dtype || a.op != b.op || a.root != b.root) return false;
    if (!counts_differ && a.count != b.count) return false;
  }
  return true;
}

void take(const FakeCall& call, std::size_t at, int source, std::size_t first, std::size_t count) {
  auto* to = static_cast<std::byte*>(call.recv) + at * element(call);
  const std::byte* from = contribution(source) + first * element(call);
  if (count > 0) std::memcpy(to, from, count * element(call));
}

void take_reduced(const FakeCall& call, std::size_t first, std::size_t count) {
  std::vector<const std::byte*> inputs;
  for (std::size_t r = 0; r < ranks(); ++r) inputs.push_back(contribution(static_cast<int>(r)) + first * element(call));
  auto op = call.op >= 64 ? ReduceOp::kSum : static_cast<ReduceOp>(call.op);
  auto* to = static_cast<std::byte*>(call.recv);
  serial_reduce(static_cast<Datatype>(call.dtype), op, inputs, to, count);
  round_as_sent(call, to, count);
}

/// Elements of `source`'s contribution before the block of rank `r`.
std::size_t first_of(std::size_t source, std::size_t r) {
  return std::accumulate(shared->headers[source].sends, shared->headers[source].sends + r, std::size_t{0});
}

/// Returns how many elements this rank got, counted from the start of recv.
std::size_t take_all(const FakeCall& call) {
  auto root = static_cast<std::size_t>(call.root);
  switch (call.kind) {
    case Collective::kReduce:
      if (!is_root(call)) return 0;
      [[fallthrough]];
    case Collective::kAllReduce:
      take_reduced(call, 0, call.count);
      return call.count;
    case Collective::kBroadcast:
      take(call, 0, call.root, 0, call.count);
      return call.count;
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
      take_reduced(call, first_of(me(), me()), call.send_blocks.counts[me()]);
      return call.send_blocks.counts[me()];
    case Collective::kScatter:
    case Collective::kScatterV:
      if (call.recv == FOLDCAST_IN_PLACE) return 0;
      take(call, 0, call.root, first_of(root, me()), call.count);
      return call.count;
    case Collective::kSendRecv:
      take(call, 0, call.recv_peer, 0, call.count);
      return call.count;
    case Collective::kBarrier:
      return 0;
    default:
      break;
  }
  if (has_root(call.kind) && !is_root(call)) return 0;
  for (std::size_t r = 0; r < ranks(); ++r) {
    std::size_t first = is_all_to_all(call.kind) ? first_of(r, me()) : 0;
    take(call, call.recv_blocks.starts[r], static_cast<int>(r), first, call.recv_blocks.counts[r]);
  }
  return call.recv_blocks.starts[ranks() - 1] + call.recv_blocks.counts[ranks() - 1];
}

void make_mistakes(const FakeCall& call, std::size_t got) {
  const FakeBehaviour& behaviour = shared->behaviour;
  if (call.recv == FOLDCAST_IN_PLACE) return;
  auto* out = static_cast<std::byte*>(call.recv);
  std::size_t bytes = got * element(call);
  if (this_rank == behaviour.flip_rank && call.comm->runs_on() == behaviour.flip_path && bytes > 0) {
    out[behaviour.flip_last ? bytes - element(call) : 0] ^= std::byte{1};
  }
  if (this_rank != behaviour.stray_rank || call.comm->path == FOLDCAST_PATH_HOST) return;  // agreement must work
  if (behaviour.stray == FakeBehaviour::Stray::kBefore) out[-1] = std::byte{0};
  if (behaviour.stray == FakeBehaviour::Stray::kBehind) out[bytes] = std::byte{0};
  bool has_input = call.send != FOLDCAST_IN_PLACE && gives(call) && shared->headers[me()].sends[0] > 0;
  if (behaviour.stray == FakeBehaviour::Stray::kInput && has_input) {
    *static_cast<std::byte*>(const_cast<void*>(call.send)) ^= std::byte{1};
  }
}

double duration_us(const FakeCall& call, std::size_t elements) {
  const FakeBehaviour& behaviour = shared->behaviour;
  return call.comm->runs_on() == FOLDCAST_PATH_HOST
             ? behaviour.host_us_per_byte * static_cast<double>(elements * element(call))
             : behaviour.offload_us;
}

/// What a call of `us` still takes once its data is there.
foldcast_result_t run(const FakeCall& call, double& us) {
  const FakeBehaviour& behaviour = shared->behaviour;
  ++call.comm->calls;
  if (call.comm->calls == behaviour.kill_call && this_rank == behaviour.kill_rank) ::raise(SIGKILL);
  if (call.kind == Collective::kBarrier && behaviour.barrier_leaks && call.comm->path != FOLDCAST_PATH_HOST) {
    return FOLDCAST_SUCCESS;
  }
  if (!publish(call)) return fail(FOLDCAST_INVALID_ARGUMENT, "more than the fake has room for");
  bool differs = call.comm->calls == behaviour.mismatch_call && this_rank == behaviour.mismatch_rank;
  if (differs) ++shared->headers[me()].dtype;
  if (!meet()) return fail(FOLDCAST_PEER_FAILED, "a rank of the fake is gone");
  if (!have_equal_headers(call)) return fail(FOLDCAST_MISMATCH, "the ranks of the fake ask for different things");
  std::size_t got = take_all(call);
  us = duration_us(call, got);
  if (call.kind != Collective::kBarrier) make_mistakes(call, got);
  return meet() ? FOLDCAST_SUCCESS : fail(FOLDCAST_PEER_FAILED, "a rank of the fake is gone");
}

/// Half of an exchange, until the other half has been called.
FakeCall exchange{Collective::kSendRecv, nullptr, nullptr, nullptr, FOLDCAST_INT8};

}  // namespace

FakeBlocks blocks(const std::size_t* counts, const std::size_t* starts) {
  FakeBlocks made;
  std::size_t next = 0;
  for (std::size_t r = 0; r < ranks(); ++r) {
    made.counts.push_back(counts[r]);
    made.starts.push_back(starts != nullptr ? starts[r] : next);
    next += counts[r];
  }
  return made;
}
FakeBlocks equal_blocks(std::size_t count) {
  std::vector<std::size_t> counts(ranks(), count);
  return blocks(counts.data(), nullptr);
}

foldcast_result_t blocking(const FakeCall& call) {
  double us = 0;
  foldcast_result_t result = run(call, us);
  if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
  return result;
}

foldcast_result_t start(const FakeCall& call, foldcast_request_t* request) {
  double us = 0;
  foldcast_result_t result = run(call, us);
  if (result != FOLDCAST_SUCCESS) return result;
  auto over = std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::llround(us * 1e3));
  *request = new foldcast_request{over};
  return FOLDCAST_SUCCESS;
}

foldcast_result_t note_exchange(const FakeCall& half) {
  exchange.comm = half.comm;
  exchange.count = half.count;
  exchange.dtype = half.dtype;
  if (half.send != nullptr) exchange.send = half.send, exchange.send_peer = half.send_peer;
  if (half.recv != nullptr) exchange.recv = half.recv, exchange.recv_peer = half.recv_peer;
  if (exchange.send_peer < 0 || exchange.recv_peer < 0) return FOLDCAST_SUCCESS;
  FakeCall whole = std::exchange(exchange, {Collective::kSendRecv, nullptr, nullptr, nullptr, FOLDCAST_INT8});
  return blocking(whole);
}

}  // namespace foldcast::tools::testing
