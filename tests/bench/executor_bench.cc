// What interpreting a schedule costs: an all_reduce of two ranks as a ring over `inproc`, run by executors, beside the
// same messages and reductions written out by hand. One thread drives both ranks, so that nothing but work is measured.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/runtime/executor.h"
#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/builder.h"
#include "kernels/reducer.h"
#include "transports/inproc/inproc.h"

namespace foldcast::runtime {
namespace {

using schedule::Space;
using transports::Transport;

constexpr std::size_t kRanks = 2;

/// Two ranks that know each other, and their buffers.
class Pair {
 public:
  explicit Pair(std::size_t floats) : floats_(floats) {
    for (auto& rank : ranks) {
      rank.transport = transports::make_inproc(network_);
      rank.input.assign(floats, 1.0f);
      rank.output.assign(floats, 0.0f);
      rank.partial.assign(floats, 0.0f);
    }
    for (std::size_t r = 0; r < kRanks; ++r) {
      ranks[r].peer = *ranks[r].transport->connect(ranks[1 - r].transport->address(), "peer");
    }
  }

  struct Rank {
    std::unique_ptr<Transport> transport;
    std::int32_t peer = -1;
    std::vector<float> input, output, partial;
  };
  std::array<Rank, kRanks> ranks;

  Signature signature() const {
    return {Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kSum, WireFormat::kExact, 0, floats_};
  }
  std::size_t floats() const { return floats_; }

 private:
  std::shared_ptr<transports::InprocNetwork> network_ = transports::make_inproc_network();
  std::size_t floats_;
};

EngineCall message(const Pair& pair, const Pair::Rank& rank, std::uint64_t sequence, std::uint64_t ordinal) {
  EngineCall call;
  call.peer = rank.peer;
  call.signature = pair.signature();
  call.key = {1, 0, sequence, ordinal};
  call.bytes = pair.floats() / kRanks * sizeof(float);
  return call;
}

void send(const Pair& pair, Pair::Rank& rank, std::uint64_t sequence, std::uint64_t ordinal, const float* data) {
  EngineCall call = message(pair, rank, sequence, ordinal);
  call.verb = Verb::kSend;
  call.input = reinterpret_cast<const std::byte*>(data);
  (void)rank.transport->post(call, 1);
}

void recv(const Pair& pair, Pair::Rank& rank, std::uint64_t sequence, std::uint64_t ordinal, float* data) {
  EngineCall call = message(pair, rank, sequence, ordinal);
  call.verb = Verb::kRecv;
  call.output = reinterpret_cast<std::byte*>(data);
  (void)rank.transport->post(call, 2);
}

/// Polls both until each has `completions`.
void drain(Pair& pair, std::size_t completions) {
  std::array<Completion, 8> done;
  std::array<std::size_t, kRanks> got{};
  while (got[0] < completions || got[1] < completions) {
    for (std::size_t r = 0; r < kRanks; ++r) got[r] += pair.ranks[r].transport->poll(done);
  }
}

void by_hand(benchmark::State& state) {
  Pair pair(static_cast<std::size_t>(state.range(0)) / sizeof(float));
  const std::size_t half = pair.floats() / 2;
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    ++sequence;
    for (std::size_t r = 0; r < kRanks; ++r) {
      auto& rank = pair.ranks[r];
      send(pair, rank, sequence, 0, rank.input.data() + r * half);
      recv(pair, rank, sequence, 0, rank.partial.data() + (1 - r) * half);
      recv(pair, rank, sequence, 1, rank.output.data() + r * half);
    }
    drain(pair, 2);
    for (std::size_t r = 0; r < kRanks; ++r) {
      auto& rank = pair.ranks[r];
      float* sum = rank.output.data() + (1 - r) * half;
      kernels::reduce(ReduceOp::kSum, Datatype::kFloat32, reinterpret_cast<std::byte*>(sum),
                      reinterpret_cast<const std::byte*>(rank.partial.data() + (1 - r) * half),
                      reinterpret_cast<const std::byte*>(rank.input.data() + (1 - r) * half), half);
      send(pair, rank, sequence, 1, sum);
    }
    drain(pair, 2);
    benchmark::DoNotOptimize(pair.ranks[0].output.data());
  }
}

/// A rank's executor with the ring's plan.
struct Interpreter {
  Interpreter(Pair::Rank& rank, std::int32_t number) {
    executor.add_engine(rank.transport.get());
    endpoints.rank = number;
    endpoints.communicator = 1;
    endpoints.world_ranks = {0, 1};
    endpoints.routes = {rank.transport.get(), rank.transport.get()};
    endpoints.peers = {rank.peer, rank.peer};
    endpoints.names = {"rank 0", "rank 1"};
    const auto ring = schedule::find_algorithm(Collective::kAllReduce, "ring");
    const std::array<std::int32_t, kRanks> members = {0, 1};
    schedule::Stage stage;
    stage.members = members;
    stage.self = number;
    stage.source = {Space::kInput, 0, 1, 1};
    stage.target = {Space::kOutput, 0, 1, 1};
    schedule::Builder builder(number);
    builder.set_apart(true);
    std::get<schedule::StageAlgorithm>(ring->build)(builder, stage);
    plan.pipelining = {1u << 30, 1};
    plan.set_schedule(builder.finish());
  }

  Execution* launch(const Pair& pair, Pair::Rank& rank, std::uint64_t sequence) {
    Binding binding;
    binding.input.data = reinterpret_cast<std::byte*>(rank.input.data());
    binding.output.data = reinterpret_cast<std::byte*>(rank.output.data());
    binding.count = pair.floats();
    binding.signature = pair.signature();
    binding.sequence = sequence;
    return *executor.launch(endpoints, plan, binding);
  }

  Executor executor;
  Endpoints endpoints;
  select::Plan plan;
};

void interpreted(benchmark::State& state) {
  Pair pair(static_cast<std::size_t>(state.range(0)) / sizeof(float));
  Interpreter first(pair.ranks[0], 0), second(pair.ranks[1], 1);
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    ++sequence;
    Execution* a = first.launch(pair, pair.ranks[0], sequence);
    Execution* b = second.launch(pair, pair.ranks[1], sequence);
    while (!a->finished() || !b->finished()) {
      first.executor.progress();
      second.executor.progress();
    }
    if (!a->status().ok() || !b->status().ok()) std::abort();
    first.executor.release(a);
    second.executor.release(b);
    benchmark::DoNotOptimize(pair.ranks[0].output.data());
  }
  if (pair.ranks[0].output.front() != 2.0f || pair.ranks[1].output.back() != 2.0f) std::abort();
}

BENCHMARK(by_hand)->Arg(8)->Arg(512)->Arg(4096)->Arg(65536);
BENCHMARK(interpreted)->Arg(8)->Arg(512)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace foldcast::runtime

BENCHMARK_MAIN();
