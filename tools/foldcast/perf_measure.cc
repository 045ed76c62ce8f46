#include "tools/foldcast/perf_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "tools/foldcast/perf_barrier.h"
#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools {
namespace {

/// Warming up for longer than this warms nothing more.
constexpr double kWarmupShare = 0.5;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// How many calls of `each_us` fit in `left_us`, at most `most`.
std::uint64_t fitting(double left_us, double each_us, std::uint64_t most) {
  if (left_us <= 0) return 0;
  double fit = each_us > 0 ? left_us / each_us : static_cast<double>(most);
  return fit >= static_cast<double>(most) ? most : static_cast<std::uint64_t>(fit);
}

/// Of an element: a scalar of the datatype.
std::array<std::byte, 8> encoded(Datatype dtype, int value) {
  std::array<std::byte, 8> element{};
  if (is_floating(dtype)) {
    encode_float(dtype, value, element.data());
  } else {
    encode_integer(dtype, static_cast<std::uint64_t>(value), element.data());
  }
  return element;
}

}  // namespace

foldcast_shape_t PerfCase::shape() const {
  foldcast_shape_t shape{};
  shape.collective = static_cast<foldcast_collective_t>(collective);
  shape.count = size.count;
  shape.dtype = abi(dtype);
  // To a plan a sum is a sum, whatever the contributions are multiplied with first.
  shape.op = static_cast<foldcast_op_t>(op == ReduceOp::kPremulSum ? ReduceOp::kSum : op);
  shape.root = root;
  return shape;
}

std::string to_string(const PerfCase& one) {
  std::string text = fmt::format("{} bytes {}", one.size.bytes, to_string(one.dtype));
  if (reduces(one.collective)) text += fmt::format(" {}", to_string(one.op));
  if (has_root(one.collective)) text += fmt::format(", root {}", one.root);
  return text + fmt::format(", path {}", to_string(one.path));
}

PerfMeasurement::PerfMeasurement(PerfJob& job, const PerfOptions& options, const Setting& setting)
    : job_(job), options_(options), seed_(setting.seed), buffers_(setting.room) {}

std::uint64_t PerfMeasurement::room_for(const PerfCase& one, int ranks) {
  PerfCall call{.kind = one.collective, .dtype = one.dtype, .count = one.size.count, .ranks = ranks, .gaps = true};
  return CallLayout::of(call).room * size_of(one.dtype);
}

void PerfMeasurement::use(const PerfCase& one) {
  job_.use(one.path, plan_applies(options_.plan, one.path) ? options_.plan : std::string(), options_.wire);
}

foldcast_plan_info_t PerfMeasurement::plan_of(const PerfCase& one) {
  use(one);
  return job_.comm().plan(one.shape());
}

PerfCall PerfMeasurement::call_of(const PerfCase& one, bool in_place) const {
  PerfCall call;
  call.kind = one.collective;
  call.dtype = one.dtype;
  call.op = one.op;
  call.count = one.size.count;
  call.ranks = job_.size();
  call.rank = job_.rank();
  call.root = one.root;
  call.in_place = in_place;
  return call;
}

foldcast_op_t PerfMeasurement::abi_op(const PerfCase& one) {
  if (!reduces(one.collective) || one.op != ReduceOp::kPremulSum) return static_cast<foldcast_op_t>(one.op);
  auto at = premul_sums_.find(one.dtype);
  if (at == premul_sums_.end()) {
    std::array<std::byte, 8> scalar = encoded(one.dtype, premultiplier(job_.rank()));
    at = premul_sums_.emplace(one.dtype, api::Op::premul_sum(scalar.data(), abi(one.dtype))).first;
  }
  return at->second.get();
}

Expectation PerfMeasurement::fresh_data(const PerfCall& call, const CallLayout& layout) {
  Expectation expected(call, layout, {++seed_, options_.wire});
  expected.prepare(buffers_);
  return expected;
}

std::int64_t PerfMeasurement::check(const PerfCase& one, const foldcast_plan_info_t& plan) {
  if (one.collective == Collective::kBarrier) {
    Wrong wrong;
    wrong.elements = static_cast<std::uint64_t>(BarrierCheck(job_).run([&] { use(one); }));
    wrong.first = "a rank left before the last had come";
    // All ranks counted the same.
    return job_.rank() == 0 ? agree_on_wrong(one, wrong, plan.name) : agree_on_wrong(one, {}, plan.name);
  }
  std::int64_t wrong = check_once(one, plan, false);
  if (has_in_place(one.collective)) wrong += check_once(one, plan, true);
  return wrong;
}

std::int64_t PerfMeasurement::check_once(const PerfCase& one, const foldcast_plan_info_t& plan, bool in_place) {
  PerfCall call = call_of(one, in_place);
  call.gaps = true;
  CallLayout layout = CallLayout::of(call);
  Expectation expected = fresh_data(call, layout);
  BoundCall bound{job_.comm(), call, layout, abi_op(one), buffers_.send.data(), buffers_.recv.data()};
  use(one);
  bound.run();
  return judge(one, expected, fmt::format("{}, plan {}", in_place ? "in place" : "out of place", plan.name));
}

std::int64_t PerfMeasurement::judge(const PerfCase& one, const Expectation& expected, const std::string& how) {
  Wrong wrong = expected.judge(buffers_);
  if (one.collective != Collective::kAllReduce) return agree_on_wrong(one, wrong, how);
  bool equal = job_.are_equal_everywhere({buffers_.recv.data(), one.size.bytes});
  std::int64_t all = agree_on_wrong(one, wrong, how);
  if (all > 0 || equal) return all;
  if (job_.rank() == 0) {
    fmt::print(stderr, "foldcast perf: ranks ended with different bits ({}, {})\n", to_string(one), how);
  }
  return 1;
}

std::int64_t PerfMeasurement::agree_on_wrong(const PerfCase& one, const Wrong& wrong, const std::string& how) {
  auto elements = static_cast<std::int64_t>(wrong.elements);
  if (elements > 0) {
    fmt::print(stderr, "foldcast perf: rank {}: {} elements wrong ({}, {}); first {}\n", job_.rank(), elements,
               to_string(one), how, wrong.first);
  }
  // The local count too: the sum went through the library that is being judged.
  return std::max(job_.agree_sum(elements), elements);
}

void PerfMeasurement::warm_up(const PerfCase& one, const Call& call) {
  if (options_.warmup == 0) return;
  (void)plan_of(one);
  double start = now_us();
  call();
  double first = job_.agree_max(now_us() - start);
  std::uint64_t more = options_.warmup - 1;
  if (options_.seconds > 0) more = fitting(options_.seconds * kWarmupShare * 1e6 - first, first, more);
  use(one);
  for (std::uint64_t i = 0; i < more; ++i) call();
}

WireBytes PerfMeasurement::read_counters() const {
  if (!job_.reads_counters()) return {};
  Result<WireBytes> bytes = read_wire();
  if (!bytes.ok()) throw std::runtime_error(bytes.status().to_string());
  return *bytes;
}

void PerfMeasurement::run_batch(const PerfCase& one, const Call& call, std::uint64_t iterations, Batches& batches) {
  (void)plan_of(one);  // chosen here, not inside the first timed call
  job_.comm().barrier();
  WireBytes before = read_counters();
  for (std::uint64_t i = 0; i < iterations; ++i) {
    double start = now_us();
    call();
    batches.times_us.push_back(now_us() - start);
    if (options_.blocking) job_.comm().barrier();
  }
  job_.comm().barrier();
  WireBytes after = read_counters();
  batches.wire.tx += after.tx - before.tx;
  batches.wire.rx += after.rx - before.rx;
}

PerfMeasurement::Batches PerfMeasurement::run(const PerfCase& one, const Call& call) {
  Batches batches;
  std::uint64_t least = std::min(options_.iterations, kLeastIterations);
  double start = now_us();
  run_batch(one, call, least, batches);
  double spent = job_.agree_max(now_us() - start);
  std::uint64_t more = options_.iterations - least;
  if (options_.seconds > 0) more = fitting(options_.seconds * 1e6 - spent, spent / static_cast<double>(least), more);
  if (more > 0) run_batch(one, call, more, batches);
  return batches;
}

void PerfMeasurement::time(const PerfCase& one, PerfRecord& record) {
  PerfCall call = call_of(one, options_.in_place);
  CallLayout layout = CallLayout::of(call);
  std::optional<Expectation> expected;
  if (!options_.in_place) {
    expected.emplace(fresh_data(call, layout));
  } else {
    // Zeros stay zeros under every op: in place, anything else would grow to infinity from call to call.
    std::memset(buffers_.send.data(), 0, layout.room * size_of(one.dtype));
    std::memset(buffers_.recv.data(), 0, layout.room * size_of(one.dtype));
  }
  BoundCall bound{job_.comm(), call, layout, abi_op(one), buffers_.send.data(), buffers_.recv.data()};
  Call make = [&] { bound.run(); };
  Call make_and_wait = [&] {
    std::vector<api::Request> requests = bound.start();
    wait_for(requests);
  };
  const Call& timed = options_.overlap ? make_and_wait : make;
  warm_up(one, timed);
  Batches batches = run(one, timed);
  if (expected && record.wrong && one.collective != Collective::kBarrier) {
    *record.wrong += judge(one, *expected, "the last timed call");
  }
  auto calls = static_cast<std::int64_t>(batches.times_us.size());
  agree_on_times(batches.times_us);
  record.time_us = summarize(batches.times_us);
  std::array<std::int64_t, 2> wire = {batches.wire.tx, batches.wire.rx};
  job_.agree(wire, FOLDCAST_MAX);
  record.wire_tx_bytes = wire[0] / calls;
  record.wire_rx_bytes = wire[1] / calls;
  if (options_.overlap) record.overlap = overlap(one, bound, record, batches.times_us.size());
}

double PerfMeasurement::median_of(const std::function<void()>& work, std::uint64_t iterations, bool meet) {
  std::vector<double> times_us;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    if (meet) job_.comm().barrier();
    double start = now_us();
    work();
    times_us.push_back(now_us() - start);
  }
  agree_on_times(times_us);
  return summarize(times_us).median;
}

Overlap PerfMeasurement::overlap(const PerfCase& one, const BoundCall& bound, const PerfRecord& record,
                                 std::uint64_t iterations) {
  if (!compute_) compute_.emplace();
  double length_us = record.time_us.median;  // agreed, so that all ranks compute the same
  double compute_us = median_of([&] { compute_->run(length_us); }, iterations, false);
  (void)plan_of(one);
  auto both = [&] {
    std::vector<api::Request> requests = bound.start();
    compute_->run_beside(length_us, options_.test_every_us, requests);
    wait_for(requests);
  };
  double total_us = median_of(both, iterations, options_.blocking);
  return Overlap::of(length_us, compute_us, total_us);
}

PerfRecord PerfMeasurement::measure(const PerfCase& one, const std::function<void(std::string_view)>& says) {
  foldcast_plan_info_t plan = plan_of(one);
  PerfRecord record;
  record.collective = one.collective;
  record.bytes = one.size.bytes;
  record.count = one.size.count;
  record.occurrences = one.size.occurrences;
  record.dtype = one.dtype;
  record.op = one.op;
  record.root = one.root;
  record.wire = options_.wire;
  record.nranks = job_.size();
  record.nnodes = job_.nodes();
  record.asked = one.path;
  record.in_place = options_.in_place;
  if (options_.check) {
    says("checking");
    record.wrong = check(one, plan);
  }
  says("timing");
  time(one, record);
  // Asked again: what was planned before the first call may have been lost with a tree since.
  plan = plan_of(one);
  record.ran = plan.path == FOLDCAST_PATH_OFFLOAD ? PerfPath::kOffload : PerfPath::kHost;
  record.plan = plan.name;
  return record;
}

void PerfMeasurement::agree_on_times(std::vector<double>& times_us) {
  switch (options_.across) {
    case PerfAcross::kRank0:
      if (job_.rank() != 0) std::fill(times_us.begin(), times_us.end(), 0.0);
      job_.agree(times_us, FOLDCAST_SUM);
      break;
    case PerfAcross::kAverage:
      job_.agree(times_us, FOLDCAST_SUM);
      for (double& us : times_us) us /= job_.size();
      break;
    case PerfAcross::kLeast:
      job_.agree(times_us, FOLDCAST_MIN);
      break;
    case PerfAcross::kMost:
      job_.agree(times_us, FOLDCAST_MAX);
      break;
  }
}

}  // namespace foldcast::tools
