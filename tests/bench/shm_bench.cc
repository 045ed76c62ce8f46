// What a node group's calls take between two processes, each on a core of its own: post() and poll() and nothing else.
//
// A child process runs the same calls as this one. A batch of calls is timed as a whole; both sides poll without ever
// sleeping. `best` is the fastest batch's time for one call, which is what a machine shared with others can promise.

#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "hierarchy/shm/shm_node_group.h"

namespace foldcast::hierarchy {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kMostBytes = 64u << 20;
constexpr std::int64_t kBatches = 10;

/// What the child is to do next; in memory both share.
struct Order {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<Verb> verb{Verb::kBarrier};
};

void bind_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  (void)::sched_setaffinity(0, sizeof cores, &cores);
}

class Pair {
 public:
  static Pair& the() {
    static Pair pair;
    return pair;
  }

  /// Seconds that `calls` calls took.
  double run(Verb verb, std::uint64_t bytes, std::uint64_t calls) {
    order_->verb = verb;
    order_->bytes = bytes;
    order_->calls = calls;
    order_->number.fetch_add(1);
    repeat(Verb::kBarrier, 0, 1);
    const auto begin = Clock::now();
    repeat(verb, bytes, calls);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  Pair() : input_(kMostBytes, std::byte{0}), output_(kMostBytes, std::byte{0}) {
    void* shared = ::mmap(nullptr, sizeof(Order), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    order_ = new (shared) Order;
    const std::string name = "shm_bench-" + std::to_string(::getpid());
    child_ = ::fork();
    join(name, child_ == 0 ? 1 : 0);
    if (child_ == 0) serve();
  }
  ~Pair() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  void join(const std::string& name, int rank) {
    bind_to(rank);
    ShmOptions options;
    options.name = name;
    options.rank = rank;
    options.size = 2;
    // To choose the defaults by.
    if (const char* text = std::getenv("SHM_BENCH_SLOT_BYTES")) options.slot_bytes = std::strtoull(text, nullptr, 0);
    if (const char* text = std::getenv("SHM_BENCH_SLOTS")) options.slots = static_cast<std::uint32_t>(std::atoi(text));
    group_ = std::move(make_shm_node_group(options)).value();
  }

  [[noreturn]] void serve() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::uint64_t seen = 0;;) {
      while (order_->number.load() == seen) {
      }
      ++seen;
      repeat(Verb::kBarrier, 0, 1);
      repeat(order_->verb, order_->bytes, order_->calls);
    }
  }

  void repeat(Verb verb, std::uint64_t bytes, std::uint64_t calls) {
    EngineCall call;
    call.verb = verb;
    call.owners = 2;
    call.peer = 0;
    call.input = input_.data();
    call.output = output_.data();
    call.count = bytes / sizeof(float);
    call.signature = {Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kSum, WireFormat::kExact, 0, call.count};
    Completion done[4];
    for (std::uint64_t i = 0; i < calls; ++i) {
      call.key.sequence = ++sequence_;
      (void)group_->post(call, i);
      while (group_->poll(done) == 0) {
      }
      if (!done[0].status.ok()) std::abort();
    }
  }

  std::vector<std::byte> input_, output_;
  std::unique_ptr<NodeGroup> group_;
  Order* order_ = nullptr;
  pid_t child_ = -1;
  std::uint64_t sequence_ = 0;
};

void call(benchmark::State& state, Verb verb) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const std::uint64_t batch = std::clamp<std::uint64_t>((4u << 20) / (bytes + 1), 1, 2000);
  Pair& pair = Pair::the();
  pair.run(verb, bytes, batch);
  double best = std::numeric_limits<double>::max();
  for (auto _ : state) {
    const double seconds = pair.run(verb, bytes, batch) / static_cast<double>(batch);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["GB_per_s"] = static_cast<double>(bytes) / best * 1e-9;
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(kBatches);
  for (std::int64_t bytes = 8; bytes <= std::int64_t{kMostBytes}; bytes *= bytes < 2048 ? 16 : 4) bench->Arg(bytes);
}

BENCHMARK_CAPTURE(call, all_reduce, Verb::kAllReduce)->Apply(sizes);
BENCHMARK_CAPTURE(call, reduce_scatter, Verb::kReduceScatter)->Apply(sizes);
BENCHMARK_CAPTURE(call, all_gather, Verb::kAllGather)->Apply(sizes);
BENCHMARK_CAPTURE(call, broadcast, Verb::kBroadcast)->Apply(sizes);
BENCHMARK_CAPTURE(call, barrier, Verb::kBarrier)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(kBatches)
    ->Arg(0);

}  // namespace
}  // namespace foldcast::hierarchy

BENCHMARK_MAIN();
